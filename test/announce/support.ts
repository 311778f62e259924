import { Queue } from 'bullmq';
import { type Announcer, createAnnouncer } from '../../src/announce.js';
import { override } from '../../src/channel/override.js';
import { record } from '../../src/channel/record.js';
import type { Policy } from '../../src/domain/policy.js';
import type { Transition } from '../../src/domain/transition.js';
import { silent } from '../../src/observe/log.js';
import { createMetrics } from '../../src/observe/metrics.js';
import { openQueues, type Queues } from '../../src/queue/queues.js';
import type { Watching } from '../../src/recovery/sweep.js';
import { closeRedis, openRedis, type RedisClient, whenReady } from '../../src/redis/client.js';
import type { Keys } from '../../src/redis/keys.js';
import type { LiveRules } from '../../src/rules/port.js';
import { type BatchInput, batchOf, bench, C10, FRESH_MS } from '../channel/support.js';
import { releaseAtEnd } from '../support/releasers.js';

export function rulesFor(policyFor: (channel: string) => Policy): LiveRules {
  return {
    version: () => 1,
    policyFor,
    minVisible: () => 0,
    namedChannels: () => [],
    patternGroups: () => new Set(),
    receivers: () => [],
    routes: () => [],
    onChange: () => () => {},
    close: async () => {},
  };
}

export type Stand = {
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly announcer: Announcer;
  readonly watching: Watching;
  readonly warnings: string[];
  /** A counter of this process, summed over its labels. */
  counted(name: string): Promise<number>;
  record(channel: string, story: string, input?: BatchInput): ReturnType<typeof record>;
  unblock(channel: string, forMs?: number): ReturnType<typeof override>;
  readonly addNotify: Queues['addNotify'];
  /** Every job of a queue, whatever its state. */
  jobs<T = Transition>(queue: string): Promise<{ id: string; data: T; delay: number }[]>;
  /** The agenda: score by channel. */
  agenda(): Promise<Record<string, number>>;
  now(): Promise<number>;
};

/** Announcer and watcher on a real Redis with real queues, as one process has them. */
export async function stand(
  options: { policy?: Policy; url?: string; keys?: Keys; queueUrl?: string; queueDeadlineMs?: number } = {},
): Promise<Stand> {
  const env = await bench(options.url);
  const { client, url } = env;
  const keys = options.keys ?? env.keys;
  const producer = openRedis(options.queueUrl ?? url, 'queue-producer');
  if (!options.queueUrl) await whenReady(producer);
  const queues = openQueues({ client: producer, prefix: keys.queues, deadlineMs: options.queueDeadlineMs ?? 1_000 });
  releaseAtEnd(async () => {
    await queues.close();
    await closeRedis(producer);
  });
  const warnings: string[] = [];
  const tell = (_facts: object, message?: string) => void warnings.push(message ?? '');
  const log = { ...silent, warn: tell, error: tell };
  const metrics = createMetrics();
  const announcer = createAnnouncer({ client, keys, queues, log, count: metrics.count });
  const policy = options.policy ?? C10;
  const rules = rulesFor(() => policy);
  const watching = { client, keys, rules, announcer, freshForMs: FRESH_MS, log, count: metrics.count };
  return {
    ...{ client, keys, announcer, watching, warnings },
    addNotify: queues.addNotify,
    counted: async (name) =>
      (await metrics.registry.getSingleMetric(name)!.get()).values.reduce((sum, { value }) => sum + value, 0),
    record: (channel, story, input) => record(client, keys, channel, policy, FRESH_MS, batchOf(story, input)),
    unblock: (channel, forMs = 0) =>
      override(client, keys, channel, policy, FRESH_MS, { action: 'unblock', forMs, actor: 'ann', note: '' }),
    async jobs<T>(name: string) {
      const reading = openRedis(url, 'queue-worker');
      const queue = new Queue(name, { connection: reading, prefix: keys.queues });
      try {
        const jobs = await queue.getJobs(['waiting', 'delayed', 'completed', 'failed', 'active', 'prioritized'], 0, -1);
        return jobs.map((job) => ({ id: job.id!, data: job.data as T, delay: job.delay }));
      } finally {
        await queue.close();
        await closeRedis(reading);
      }
    },
    async agenda() {
      const flat = await client.zrange(keys.agenda, '0', '-1', 'WITHSCORES');
      return Object.fromEntries(flat.flatMap((name, i) => (i % 2 === 0 ? [[name, Number(flat[i + 1])]] : [])));
    },
    async now() {
      const [seconds, micros] = await client.time();
      return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
    },
  };
}
