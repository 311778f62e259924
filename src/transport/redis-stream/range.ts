import type { RedisClient } from '../../redis/client.js';
import { withDeadline } from '../../redis/deadline.js';
import type { Keys } from '../../redis/keys.js';
import type { LogEntry } from '../port.js';
import { decodeEntry } from './decode.js';
import { logName } from './log-record.js';
import { listShards } from './shards.js';

/** Entries that arrived from `fromMs` on, before `toMs`. Either may be infinite. */
export type Range = { readonly fromMs: number; readonly toMs: number };

export type ShardRange = { readonly partition: string; readonly entries: AsyncIterable<readonly LogEntry[]> };

/** Somebody else works with this Redis: entries of about 1 MiB a call, each of which holds up everybody. */
const BIG_READ = 1024 * 1024;
const FIRST_COUNT = 16;
const COUNT_MOST = 2_000;
const CALL_MS = 5_000;

/**
 * What the shards of the log hold of a time, each in its order, without touching group, lease or position. A log that is written to ends
 * at the instant of the call.
 *
 * @throws what Redis answers, or no answer within 5 s
 */
export async function readShardRanges(client: RedisClient, keys: Keys, { fromMs, toMs }: Range): Promise<ShardRange[]> {
  const [seconds, micros] = await withDeadline(client.time(), CALL_MS, 'TIME');
  const nowMs = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
  const first = fromMs > 0 ? `${Math.ceil(fromMs)}-0` : '-';
  // An id without its second half ends the range after all of that millisecond.
  const last = `${Math.max(0, Math.ceil(Math.min(toMs, nowMs + 1)) - 1)}`;
  const shards = await listShards(client, keys);
  return shards.map((shard) => ({
    partition: logName(keys, shard),
    entries: readRange(client, keys.outcomes(shard), first, last),
  }));
}

async function* readRange(
  client: RedisClient,
  stream: string,
  first: string,
  last: string,
): AsyncGenerator<readonly LogEntry[]> {
  let from = first;
  let count = FIRST_COUNT;
  for (;;) {
    const found = await withDeadline(client.xrange(stream, from, last, 'COUNT', count), CALL_MS, 'XRANGE');
    if (found.length > 0) yield found.map(([id, fields]) => decodeEntry(id, fields));
    if (found.length < count) return;
    from = `(${found.at(-1)![0]}`;
    const size = found.reduce((sum, [, fields]) => sum + fields.reduce((length, text) => length + text.length, 0), 0);
    if (size > BIG_READ) count = Math.max(1, Math.floor(count / 2));
    else if (size < BIG_READ / 4) count = Math.min(COUNT_MOST, count * 2);
  }
}
