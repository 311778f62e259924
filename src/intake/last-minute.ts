import { z } from 'zod';
import { readTime } from '../channel/snapshot.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { LIVE_MS } from '../transport/heartbeat.js';
import { type ChannelStats, LOAD_FIELD } from './stats.js';

const StoredCounts = z.object({ successes: z.number().int().min(0), failures: z.number().int().min(0) });

/** The workers that live, by their heartbeat. `log`: a client of the Redis that holds the outcome log. @throws what Redis answers */
export async function liveWorkers(log: RedisClient, keys: Keys): Promise<string[]> {
  const { redisMs } = await readTime(log);
  return log.zrangebyscore(keys.workers, `(${Math.floor(redisMs) - LIVE_MS}`, '+inf');
}

/**
 * Each worker's counts of the last minute, added up: the channels that have traffic. What cannot be read is left out, for it is for
 * looking at.
 *
 * @throws what Redis answers
 */
export async function lastMinute(
  main: RedisClient,
  keys: Keys,
  workers: readonly string[],
): Promise<Map<string, ChannelStats>> {
  const sums = new Map<string, ChannelStats>();
  for (const stored of await Promise.all(workers.map((worker) => main.hgetall(keys.stats(worker))))) {
    for (const [channel, text] of Object.entries(stored)) {
      if (channel === LOAD_FIELD) continue;
      const counts = countsOf(text);
      const sum = sums.get(channel) ?? { successes: 0, failures: 0 };
      sums.set(channel, { successes: sum.successes + counts.successes, failures: sum.failures + counts.failures });
    }
  }
  return sums;
}

/** How busy the event loops of workers are on average, 0 to 1; `undefined`: none of them says. @throws what Redis answers */
export async function workersLoad(
  main: RedisClient,
  keys: Keys,
  workers: readonly string[],
): Promise<number | undefined> {
  const texts = await Promise.all(workers.map((worker) => main.hget(keys.stats(worker), LOAD_FIELD)));
  const loads = texts.flatMap((text) => (text && Number(text) >= 0 && Number(text) <= 1 ? [Number(text)] : []));
  return loads.length === 0 ? undefined : loads.reduce((sum, load) => sum + load, 0) / loads.length;
}

function countsOf(text: string): ChannelStats {
  try {
    return StoredCounts.parse(JSON.parse(text));
  } catch {
    return { successes: 0, failures: 0 };
  }
}
