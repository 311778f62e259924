import type { RedisClient } from '../../redis/client.js';
import { withDeadline } from '../../redis/deadline.js';
import type { Keys } from '../../redis/keys.js';
import { loadScript, runScript } from '../../redis/script.js';
import { CALL_MS, DEFAULT_SHARDS, GROUP } from './options.js';

/** What `fuseline:shards` says. `used` holds every shard that may still have something to read, those in use included. */
export type Shards = { readonly count: number; readonly used: readonly number[] };

/** Most shards of a log: each costs a connection and a lease. */
export const SHARDS_MAX = 256;

const dropShard = loadScript('drop-shard');

/**
 * Reads the registry; a log without one begins with `initial` shards. Of several that begin at once all get the same answer.
 *
 * @throws what Redis answers, or no answer within 2 s
 */
export async function readShards(client: RedisClient, keys: Keys, initial = DEFAULT_SHARDS): Promise<Shards> {
  const stored = await call(client.hgetall(keys.shards), 'HGETALL');
  const count = parseCount(stored.count);
  const missing = range(count ?? 0).filter((n) => stored[n] === undefined);
  if (count !== undefined && missing.length === 0) return { count, used: usedOf(stored) };
  if (count === undefined) {
    if (stored.count !== undefined)
      throw new Error(`${keys.shards} holds count ${JSON.stringify(stored.count)}, want 1 to ${SHARDS_MAX}`);
    await call(client.hsetnx(keys.shards, 'count', checked(initial)), 'HSETNX');
  } else {
    await register(client, keys, missing);
  }
  return readShards(client, keys, initial);
}

/** Every shard that may hold something, as the registry has it now; none before anybody has written or read. Changes nothing. */
export async function listShards(client: RedisClient, keys: Keys): Promise<number[]> {
  return usedOf(await call(client.hgetall(keys.shards), 'HGETALL'));
}

/**
 * Changes the number of shards. Writers follow within 5 s; workers read the shards that are no longer written to until they are empty.
 * A channel that moves to another shard may for a moment be recorded out of order.
 */
export async function setShards(client: RedisClient, keys: Keys, count: number): Promise<void> {
  checked(count);
  await register(client, keys, range(count));
  await call(client.hset(keys.shards, { v: 1, count }), 'HSET');
}

/**
 * Removes shards that are no longer in use, read to their end, and unwritten for `idleMs` (no shorter than publishers take to notice a
 * change). Resolves to those removed. Housekeeping calls it; running it twice at once is harmless.
 */
export async function dropEmptyShards(client: RedisClient, keys: Keys, idleMs = 600_000): Promise<number[]> {
  const { count, used } = await readShards(client, keys);
  const dropped: number[] = [];
  for (const shard of used.filter((n) => n >= count)) {
    const gone = await call(
      runScript(client, dropShard, [keys.outcomes(shard), keys.lease(shard)], [GROUP, idleMs]),
      'EVALSHA',
    );
    if (gone !== 1) continue;
    await call(client.hdel(keys.shards, String(shard)), 'HDEL');
    dropped.push(shard);
  }
  return dropped;
}

async function register(client: RedisClient, keys: Keys, shards: readonly number[]): Promise<void> {
  await call(client.hset(keys.shards, Object.fromEntries([['v', 1], ...shards.map((n) => [n, 1])])), 'HSET');
}

function usedOf(stored: Readonly<Record<string, string>>): number[] {
  const fields = Object.keys(stored).filter((field) => /^\d{1,3}$/.test(field));
  return fields.map(Number).sort((a, b) => a - b);
}

function parseCount(text: string | undefined): number | undefined {
  const count = Number(text);
  return text !== undefined && Number.isInteger(count) && count >= 1 && count <= SHARDS_MAX ? count : undefined;
}

function checked(count: number): number {
  if (Number.isInteger(count) && count >= 1 && count <= SHARDS_MAX) return count;
  throw new Error(`the number of shards must be a whole number from 1 to ${SHARDS_MAX}, got ${count}`);
}

const range = (length: number) => Array.from({ length }, (_, n) => n);
const call = <T>(promise: Promise<T>, what: string) => withDeadline(promise, CALL_MS, what);
