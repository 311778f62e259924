import { z } from 'zod';
import type { RedisClient } from '../../redis/client.js';
import { withDeadline } from '../../redis/deadline.js';
import type { Keys } from '../../redis/keys.js';

/**
 * What `fuseline:log` keeps of one partition, so that whoever is assigned it next can tell whether it still is the same log.
 *
 * - `generation`: counts the logs that lay under this name; part of the partition's name, so that a fence of an earlier log is none.
 * - `position`: the offset after the last one committed; written once a second at most, so it may lie behind the group's.
 * - `arrivalMs`: latest arrival of any entry before `position`.
 * - `servers`: replication ids of the Redis servers that have what was read; another one means a failover.
 *
 * It belongs to the topic and not to the group: a new group that reads everything again must find the same generation.
 */
const LogRecord = z.object({
  v: z.literal(1).default(1),
  generation: z.number().int().min(1),
  position: z.string().regex(/^\d{1,19}$/),
  arrivalMs: z.number().min(0).default(0),
  servers: z.array(z.string()).default([]),
});
export type LogRecord = Omit<z.infer<typeof LogRecord>, 'v'>;

const CALL_MS = 2_000;

/** The partition's name without its generation: the field of `fuseline:log`. */
export function logName(topic: string, partition: number): string {
  return `kafka/${topic}/${partition}`;
}

/** @throws what Redis answers, or no answer within 2 s. A damaged record counts as none. */
export async function readRecord(client: RedisClient, keys: Keys, name: string): Promise<LogRecord | undefined> {
  const text = await withDeadline(client.hget(keys.log, name), CALL_MS, 'HGET');
  if (text === null) return undefined;
  try {
    return LogRecord.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** @throws what Redis answers, or no answer within 2 s */
export async function writeRecord(client: RedisClient, keys: Keys, name: string, record: LogRecord): Promise<void> {
  await withDeadline(client.hset(keys.log, name, JSON.stringify({ v: 1, ...record })), CALL_MS, 'HSET');
}
