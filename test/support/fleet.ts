import { DEFAULT_POLICY, type Policy } from '../../src/domain/policy.js';
import { createPublisher, type Publisher } from '../../src/publisher/index.js';
import { type Env, type Role, rulesFile, startRoles, untilReady, type Worker } from '../process/workers.js';
import { type HttpReceiver, startHttpReceiver } from './http-receiver.js';
import { uniquePrefix } from './redis.js';
import { releaseAtEnd } from './releasers.js';

/** Window of 10, threshold 70 %, blocks of one second, watched for one more. */
export const SHORT: Policy = {
  ...DEFAULT_POLICY,
  mode: 'on',
  block: { ...DEFAULT_POLICY.block, forMs: 1_000 },
  holdMs: 1_000,
};

export type FleetOptions = {
  redis: string;
  /** Where processes find it, if they are to go through a proxy. */
  via?: string;
  queue?: string;
  rules?: object;
  env?: Env;
};

/** A place for worker processes: settings, somebody who is told, and somebody who publishes. Starts no process by itself. */
export type Fleet = {
  env: Env;
  prefix: string;
  receiver: HttpReceiver;
  publisher: Publisher;
  /** Starts a process of these roles; resolves when it is ready. */
  start(...roles: Role[]): Promise<Worker>;
};

/** Nothing is trimmed from the log, so that a verifier can read all of it at the end. */
export async function openFleet({ redis, via = redis, queue, rules = {}, env = {} }: FleetOptions): Promise<Fleet> {
  const receiver = await startHttpReceiver();
  const prefix = uniquePrefix();
  const settings: Env = {
    FUSELINE_REDIS_URL: via,
    ...(queue === undefined ? {} : { FUSELINE_QUEUE_REDIS_URL: queue }),
    FUSELINE_PREFIX: prefix,
    FUSELINE_REWIND: '5m',
    FUSELINE_ALLOW_PRIVATE_RECEIVERS: 'true',
    FUSELINE_RULES: await rulesFile({
      version: 1,
      mode: 'on',
      defaults: { window: 10, successRate: 70, block: '1s', hold: '1s' },
      receivers: { ops: { type: 'webhook', url: `${receiver.url}/hook` } },
      routes: [{ to: ['ops'] }],
      ...rules,
    }),
    ...env,
  };
  const publisher = createPublisher({ url: via, prefix });
  releaseAtEnd(() => publisher.close());
  return {
    env: settings,
    prefix,
    receiver,
    publisher,
    async start(...roles) {
      const worker = startRoles(roles, settings);
      await untilReady(worker);
      return worker;
    },
  };
}

const BUSY = ['ALIPAY', '微信支付', 'stripe/eu-1', 'sms-aliyun', 'login', 'maps'];
const TICKS_PER_RARE = 8;

/**
 * Publishes until it is stopped: busy channels with 2 % failures, one that is sick, and ever new ones that fail three times and are
 * not heard of again. Those tell what a busy window forgets: one failure more is a block, one less another window.
 */
export function startLoad(publisher: Publisher, random: () => number): { stop(): Promise<boolean> } {
  let ticks = 0;
  const timer = setInterval(() => {
    for (let i = 0; i < 10; i += 1) {
      publisher.publish({ channel: BUSY[Math.floor(random() * BUSY.length)]!, success: random() >= 0.02 });
    }
    for (let i = 0; i < 3; i += 1) publisher.publish({ channel: 'sick', success: random() >= 0.4 });
    ticks += 1;
    const rare = `rare-${Math.floor(ticks / TICKS_PER_RARE)}`;
    if (ticks % TICKS_PER_RARE < 3) publisher.publish({ channel: rare, success: false });
  }, 10);
  releaseAtEnd(async () => clearInterval(timer));
  return {
    stop() {
      clearInterval(timer);
      return publisher.flush({ timeoutMs: 10_000 });
    },
  };
}

/** A generator of numbers in [0, 1) that gives the same ones for the same seed (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** The seed of a run: `FUSELINE_SEED`, or a new one. Printed, so that a run can be had again. */
export function seedOf(test: string): number {
  const seed = Number(process.env.FUSELINE_SEED ?? Math.floor(Math.random() * 2 ** 31));
  console.info(`${test}: FUSELINE_SEED=${seed}`);
  return seed;
}
