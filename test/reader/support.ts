import { appendToFeed } from '../../src/channel/feed.js';
import { DEFAULT_POLICY, type Policy } from '../../src/domain/policy.js';
import { Transition } from '../../src/domain/transition.js';
import { createReader, type Reader, type ReaderOptions } from '../../src/reader/index.js';
import { closeRedis, openRedis, type RedisClient, whenReady } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import type { LiveRules } from '../../src/rules/port.js';
import { sharedRedisUrl, uniquePrefix } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';

export type Bench = {
  url: string;
  keys: Keys;
  client: RedisClient;
  now(): Promise<number>;
  /** Writes what Lua would: state, block key and agenda. The block key has no expiry for `until` -1, and is not written for 0. */
  write(channel: string, fields: Record<string, string | number>): Promise<void>;
  tell(transition: TransitionInput): Promise<void>;
  reader(options?: Partial<ReaderOptions>): Promise<Reader & { told: Transition[]; warnings: string[] }>;
};

export type TransitionInput = { channel: string; kind: string; epoch: number } & Record<string, unknown>;

/** Keys of one test, written by hand as the scripts write them, and readers that are closed with it. */
export async function bench(url = sharedRedisUrl()): Promise<Bench> {
  const prefix = uniquePrefix();
  const keys = new Keys(prefix);
  const client = openRedis(url, 'commands');
  releaseAtEnd(() => closeRedis(client));
  await whenReady(client);
  const now = async () => {
    const [seconds, micros] = await client.time();
    return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
  };
  return {
    ...{ url, keys, client, now },
    async write(channel, fields) {
      const { until = 0 } = fields;
      const since = fields.since ?? fields.epoch ?? 0;
      const state = {
        v: 1,
        state: 'open',
        since,
        keyUntil: until,
        hold: 0,
        incident: '1',
        trips: 1,
        reason: 'success-rate',
      };
      const block = { block: fields.epoch ?? 0, blockedAt: since, actor: '', note: '' };
      await client.hset(keys.state(channel), { ...state, ...block, ...fields });
      await client.zadd(keys.agenda, 0, channel);
      const value = String(fields.state ?? 'open');
      if (until === -1) await client.set(keys.blocked(channel), value);
      else if (until !== 0) await client.set(keys.blocked(channel), value, 'PXAT', Number(until));
    },
    tell: (transition) => appendToFeed(client, keys, makeTransition(transition)),
    async reader(options = {}) {
      const warnings: string[] = [];
      const logger = { info: () => {}, warn: (_fields: object, message: string) => void warnings.push(message) };
      const source = options.client ? {} : { url };
      const reader = createReader({ ...source, prefix, logger, readyWithinMs: 5_000, ...options });
      releaseAtEnd(() => reader.close());
      const told: Transition[] = [];
      reader.on('transition', (transition) => void told.push(transition));
      await reader.ready;
      return Object.assign(reader, { told, warnings });
    },
  };
}

/** A whole transition from the few fields that a test cares about; an unknown kind passes through. */
export function makeTransition(input: TransitionInput): Transition {
  const ends = input.kind === 'recovered' || input.kind === 'held' || input.kind === 'observed';
  const [from, to] = ends ? ['open', 'closed'] : ['closed', 'open'];
  const whole = {
    at: input.epoch,
    from,
    to,
    until: 0,
    reason: 'success-rate',
    incident: '1',
    block: input.epoch,
    ...input,
  };
  return { ...Transition.parse({ ...whole, kind: 'blocked' }), kind: input.kind as Transition['kind'] };
}

export type RulesInput = { policies?: Record<string, Partial<Policy>>; minVisible?: Record<string, number> };

/** Rules as a value. */
export function rulesOf({ policies = {}, minVisible = {} }: RulesInput): LiveRules {
  return {
    version: () => 1,
    policyFor: (channel) => ({ ...DEFAULT_POLICY, mode: 'on', ...policies[channel] }),
    minVisible: (group) => minVisible[group] ?? 0,
    namedChannels: () => Object.keys(policies),
    patternGroups: () => new Set(),
    receivers: () => [],
    routes: () => [],
    onChange: () => () => {},
    close: async () => {},
  };
}
