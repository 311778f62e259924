import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { DEAD_LETTERS_MAX } from '../transport/redis-stream/dead-letters.js';
import { dropEmptyShards, listShards } from '../transport/redis-stream/shards.js';
import { type Chore, cap, HOUSEKEEPING_BATCH } from './housekeeping.js';

/** Workers that have been silent for so long are nobody's peers any more: every count of the living looks at 8 s. */
const DEAD_WORKER_MS = 60_000;
const CAP_WITHIN_MS = 2_000;

export type LogChoresOptions = {
  /** Of the Redis that holds the outcome log. */
  readonly client: RedisClient;
  readonly keys: Keys;
  /** Hard cap of a shard, in entries. */
  readonly maxLen: number;
};

/** The chores of the outcome log on Redis Streams. */
export function logChores({ client, keys, maxLen }: LogChoresOptions): Chore[] {
  return [
    {
      name: 'dead workers',
      async run() {
        const [seconds] = await client.time();
        const oldest = Number(seconds) * 1_000 - DEAD_WORKER_MS;
        const dead = await client.zrangebyscore(keys.workers, '-inf', `(${oldest}`, 'LIMIT', 0, HOUSEKEEPING_BATCH);
        return dead.length === 0 ? 0 : await client.zrem(keys.workers, ...dead);
      },
    },
    {
      name: 'shards no longer used',
      run: async () => (await dropEmptyShards(client, keys)).length,
    },
    { name: 'old dead letters', run: () => cap(client, keys.dead, DEAD_LETTERS_MAX) },
    {
      // Our writers cap what they write to; a shard that foreign programs alone write to is capped here.
      name: 'entries over the cap',
      async run() {
        let removed = 0;
        for (const shard of await listShards(client, keys))
          removed += await capFully(client, keys.outcomes(shard), maxLen);
        return removed;
      },
    },
  ];
}

/** Batch by batch, because a weekend without workers leaves more than one, but not for long: the next run goes on. */
async function capFully(client: RedisClient, key: string, most: number): Promise<number> {
  const end = performance.now() + CAP_WITHIN_MS;
  let removed = 0;
  for (;;) {
    const batch = await cap(client, key, most);
    removed += batch;
    if (batch === 0 || performance.now() > end) return removed;
  }
}
