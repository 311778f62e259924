import { expect } from 'vitest';
import { type Recorded, record } from '../../src/channel/record.js';
import type { ChannelBatch, RecordResult } from '../../src/domain/batch.js';
import { ChannelModel } from '../../src/domain/channel-model.js';
import type { Policy } from '../../src/domain/policy.js';
import type { Transition } from '../../src/domain/transition.js';
import { groupBatch } from '../../src/intake/group.js';
import { closeRedis, openRedis, type RedisClient, whenReady } from '../../src/redis/client.js';
import { type ChannelKeys, Keys } from '../../src/redis/keys.js';
import { sharedRedisUrl, uniquePrefix } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';
import { ClockedChannel } from './clocked-channel.js';

export const FRESH_MS = 300_000;
/** A year ahead of the server, so that nothing expires by itself in the middle of a story. */
export const START = Math.floor(Date.now() / 1000) * 1000 + 365 * 86_400_000;

/** N 10, 80 %, block 60 s, hold 60 s: the third failure among the last ten blocks. */
export const C10 = policyOf({});

export type PolicyInput = { mode?: Policy['mode']; size?: number; rate?: number; forMs?: number } & Partial<
  Omit<Policy, 'mode' | 'successRate' | 'block'> & Policy['block']
>;

/** `rate` in percent. */
export function policyOf(input: PolicyInput): Policy {
  const { mode = 'on', size = 10, rate = 80, forMs = 60_000, growth = 1, maxMs = 600_000, ...others } = input;
  const { jitter, ofPast, ...rest } = others;
  return {
    ...{ mode, window: { kind: 'count', size }, holdMs: 60_000, ignore: [] },
    ...{ successRate: Math.round(rate * 100), block: { forMs, growth, maxMs, jitter, ofPast } },
    ...rest,
  };
}

export type BatchInput = {
  partition?: string;
  arrivalMs?: number;
  ago?: number;
  duration?: number;
  source?: string;
  retryAfterMs?: number;
};
const RESULTS: Readonly<Record<string, string>> = { F: '0', S: '1', L: '3', W: '4' };
let positions = 0;

/**
 * `'FFS'`: two failures and a success, an entry each, at positions never used before. `L`: a slow success, `W`: the third party asked to
 * wait; both only under policies that look at them.
 */
export function batchOf(story: string, input: BatchInput = {}): ChannelBatch {
  const { partition = 'test/log/0/0', arrivalMs = 0, ago = 0, duration = 0, source, retryAfterMs } = input;
  const outcomes = [...story];
  return {
    partition,
    results: outcomes.map((one) => RESULTS[one]).join(''),
    entries: outcomes.map(() => [String(++positions), arrivalMs, 1] as const),
    times: ago === 0 && duration === 0 ? [] : outcomes.flatMap(() => [ago, duration]),
    evidence: outcomes
      .filter((one) => one !== 'S')
      .map((_, i) => JSON.stringify({ at: i, code: `E${i}`, source, retryAfterMs })),
  };
}

/** Outcomes of one entry as a worker classifies them under the policy; `undefined`: none of them is judged. */
export function judged(policy: Policy, outcomes: readonly object[], position = '1'): ChannelBatch | undefined {
  const entry = { position, arrivalMs: 0, outcomes: outcomes.map((one) => ({ channel: 'C', ...one })), raw: () => '' };
  const grouping = { policyFor: () => policy, admits: () => true, logClockLeadMs: 0 };
  return groupBatch({ partition: 'test/log/0/0', entries: [entry] }, grouping).channels.get('C');
}

export type Bench = { url: string; client: RedisClient; keys: Keys; open(): Promise<RedisClient> };

/** Keys of the test's own on a real server, and clients that are closed with it. */
export async function bench(url = sharedRedisUrl()): Promise<Bench> {
  const open = async () => {
    const client = openRedis(url, 'commands');
    releaseAtEnd(() => closeRedis(client));
    await whenReady(client);
    return client;
  };
  return { url, client: await open(), keys: new Keys(uniquePrefix()), open };
}

/** One channel on the real script in real time. */
export type RealChannel = {
  readonly names: ChannelKeys;
  record(story: string, policy?: Policy, input?: BatchInput): Promise<Recorded>;
  send(batch: ChannelBatch, policy?: Policy): Promise<Recorded>;
};

export function channelOn({ client, keys }: Pick<Bench, 'client' | 'keys'>, channel = 'C'): RealChannel {
  const send = (batch: ChannelBatch, policy = C10) => record(client, keys, channel, policy, FRESH_MS, batch);
  return {
    names: keys.channel(channel),
    send,
    record: (story, policy, input) => send(batchOf(story, input), policy),
  };
}

/**
 * The script under a clock of the test's own and the pure model beside it. Every step must end alike in both; what it resolves to is
 * then the answer of either.
 */
export class Twin {
  readonly client: RedisClient;
  readonly names: ChannelKeys;
  readonly told: Transition[] = [];
  now = START;
  readonly #script: ClockedChannel;
  readonly #model: ChannelModel;

  constructor({ client, keys }: Pick<Bench, 'client' | 'keys'>, freshForMs = FRESH_MS) {
    this.client = client;
    this.names = keys.channel('C');
    this.#script = new ClockedChannel(client as ConstructorParameters<typeof ClockedChannel>[0], keys, 'C', freshForMs);
    this.#model = new ChannelModel('C', freshForMs);
  }

  pass(ms: number): void {
    this.now += ms;
  }

  async record(story: string, policy = C10, input: BatchInput = {}): Promise<RecordResult> {
    return await this.send(batchOf(story, input), policy);
  }

  async send(batch: ChannelBatch, policy = C10): Promise<RecordResult> {
    const model = this.#model.record(policy, batch, this.now);
    return await this.#agree(await this.#script.record(policy, batch, this.now), model);
  }

  async recover(policy = C10): Promise<number> {
    return await this.#agree(await this.#script.recover(policy, this.now), this.#model.recover(policy, this.now));
  }

  async byHand(action: 'block' | 'unblock', forMs = 0, policy = C10): Promise<void> {
    await this.#script.override(policy, this.now, action, forMs);
    this.#model[action](policy, this.now, { actor: 'ann', note: 'because' }, forMs);
    await this.#agree(0, 0);
  }

  async view() {
    return await this.#script.view(this.now);
  }

  kinds(): string[] {
    return this.told.map(({ kind }) => kind);
  }

  async #agree<T>(script: T, model: T): Promise<T> {
    const told = await this.#script.takeTransitions();
    this.told.push(...told);
    const view = await this.#script.view(this.now);
    const got = { reply: script, told, view, due: await this.#script.dueAfterSettling(this.now) };
    const seen = this.#model.view(this.now);
    const want = { reply: model, told: this.#model.takeTransitions(), view: seen, due: this.#model.nextDue() };
    expect(got).toEqual(want);
    return script;
  }
}
