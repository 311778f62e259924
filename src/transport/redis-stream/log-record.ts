import { z } from 'zod';
import type { RedisClient } from '../../redis/client.js';
import { withDeadline } from '../../redis/deadline.js';
import type { Keys } from '../../redis/keys.js';
import { CALL_MS } from './options.js';

/**
 * What `fuseline:log` keeps of one partition, so that whoever takes the shard next can tell whether it still is the same log.
 *
 * - `generation`: counts the logs that lay under this name; part of the partition's name, so that a fence of an earlier log is none.
 * - `position`: last committed; written once a second at most, so it may lie behind the group's.
 * - `servers`: replication ids last seen; another one means a failover.
 */
const LogRecord = z.object({
  v: z.literal(1).default(1),
  generation: z.number().int().min(1),
  position: z.string().regex(/^\d{1,20}-\d{1,20}$/),
  servers: z.array(z.string()).default([]),
});
export type LogRecord = z.infer<typeof LogRecord>;

/** The partition's name without its generation: the field of `fuseline:log`. */
export function logName(keys: Keys, shard: number): string {
  return `redis-stream/${keys.prefix}fuseline:outcomes/${shard}`;
}

export function partitionName(keys: Keys, shard: number, generation: number): string {
  return `${logName(keys, shard)}/${generation}`;
}

/** @throws what Redis answers, or no answer within 2 s. A damaged record counts as none. */
export async function readRecord(client: RedisClient, keys: Keys, shard: number): Promise<LogRecord | undefined> {
  const text = await withDeadline(client.hget(keys.log, logName(keys, shard)), CALL_MS, 'HGET');
  if (text === null) return undefined;
  try {
    return LogRecord.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

export async function writeRecord(
  client: RedisClient,
  keys: Keys,
  shard: number,
  record: Omit<LogRecord, 'v'>,
): Promise<void> {
  const text = JSON.stringify({ v: 1, ...record });
  await withDeadline(client.hset(keys.log, logName(keys, shard), text), CALL_MS, 'HSET');
}
