import { AGO_MAX_MS } from '../../domain/outcome.js';
import { shardOf } from '../../domain/shard.js';
import type { RedisClient } from '../../redis/client.js';
import { withDeadline } from '../../redis/deadline.js';
import type { Keys } from '../../redis/keys.js';
import { outcomeText } from '../outcome-text.js';
import type { LogWriter, QueuedOutcome, SendResult } from '../port.js';
import { OUTCOMES_MAX, OUTCOMES_MAX_BYTES } from './decode.js';
import { DEFAULT_SHARDS } from './options.js';
import { readShards } from './shards.js';

export type WriterOptions = {
  /** Opened for the purpose `publish`: it must never repeat a command whose answer was lost. Opened and closed by the caller. */
  client: RedisClient;
  keys: Keys;
  /** Only for a log that is new: after that the number in Redis holds. */
  shards?: number;
  /** Entries per shard before the oldest are cut off: whoever writes must not fill a shared Redis while all workers are down. */
  maxLen?: number;
  /** How long an answer is waited for; after that it is unknown whether the outcomes are in the log. */
  deadlineMs?: number;
};

/** How long the number of shards is believed. */
const SHARDS_MS = 5_000;

/** Most bytes of a UTF-16 unit in UTF-8. Counting those of every outcome takes as long as making its text. */
const BYTES_A_UNIT = 3;

type Chunk = { outcomes: readonly QueuedOutcome[]; json: string };
type Sent = { sent: number; unsent: QueuedOutcome[]; unknown: number; error?: Error };

/**
 * Appends outcomes to the shards of their channels: one entry per shard and batch, split at 1,000 outcomes and 1 MiB. What Redis refused,
 * or what never left, comes back as unsent; what got no answer counts as unknown and is never sent again.
 */
export function createRedisStreamWriter(options: WriterOptions): LogWriter {
  const { client, keys, shards: initial = DEFAULT_SHARDS, maxLen = 1_000_000, deadlineMs = 2_000 } = options;
  let shards = { count: initial, at: Number.NEGATIVE_INFINITY };

  async function shardCount(): Promise<number> {
    const now = performance.now();
    if (now - shards.at >= SHARDS_MS) shards = { count: (await readShards(client, keys, initial)).count, at: now };
    return shards.count;
  }

  async function append(shard: number, chunks: readonly Chunk[]): Promise<Sent> {
    const total: Sent = { sent: 0, unsent: [], unknown: 0 };
    for (const [i, { outcomes, json }] of chunks.entries()) {
      try {
        if (client.status !== 'ready') throw new NotConnectedError(`Redis is ${client.status}`);
        const added = client.xadd(keys.outcomes(shard), 'MAXLEN', '~', maxLen, '*', 'v', 1, 'outcomes', json);
        await withDeadline(notRefused(added), deadlineMs, 'XADD of outcomes');
        total.sent += outcomes.length;
      } catch (error) {
        // The rest of this shard waits, so that it does not overtake what comes back as unsent.
        const left = chunks.slice(i + 1).flatMap((chunk) => chunk.outcomes);
        const never = wasNeverWritten(error);
        if (!never) total.unknown += outcomes.length;
        total.unsent.push(...(never ? outcomes : []), ...left);
        total.error = error as Error;
        break;
      }
    }
    return total;
  }

  async function send(batch: readonly QueuedOutcome[]): Promise<SendResult> {
    let count: number;
    try {
      if (client.status !== 'ready') throw new NotConnectedError(`Redis is ${client.status}`);
      count = await shardCount();
    } catch (error) {
      return { sent: 0, unsent: batch, unknown: 0, error: error as Error };
    }
    const perShard = byShard(batch, count);
    const results = await Promise.all([...perShard].map(([shard, queued]) => append(shard, chunksOf(queued))));
    const error = results.find((result) => result.error)?.error;
    const unsent = new Set(error ? results.flatMap((result) => result.unsent) : []);
    return {
      sent: results.reduce((sum, result) => sum + result.sent, 0),
      // In the order in which they were handed over.
      unsent: unsent.size === 0 ? [] : batch.filter((queued) => unsent.has(queued)),
      unknown: results.reduce((sum, result) => sum + result.unknown, 0),
      ...(error ? { error } : {}),
    };
  }

  return { send, async close() {} };
}

class NotConnectedError extends Error {
  override readonly name = 'NotConnectedError';
}

/**
 * A cluster says "Connection is closed" both of a command whose answer was lost and of one that it never wrote, because the node is not
 * connected yet. Only the second can fail in the very turn of the call, before any socket was looked at.
 */
async function notRefused<T>(call: Promise<T>): Promise<T> {
  let sameTurn = true;
  // Ticks come after all microtasks, through which an immediate failure travels.
  queueMicrotask(() =>
    process.nextTick(() => {
      sameTurn = false;
    }),
  );
  try {
    return await call;
  } catch (error) {
    throw sameTurn && !isReply(error) ? new NotConnectedError('not connected', { cause: error }) : error;
  }
}

const isReply = (error: unknown): boolean => error instanceof Error && error.name === 'ReplyError';

/** Only what Redis itself refused, or what ioredis refused to write, is certain not to be in the log. */
function wasNeverWritten(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return (
    isReply(error) ||
    error instanceof NotConnectedError ||
    error.message.includes('enableOfflineQueue options is false') ||
    error.message.startsWith('Too many Cluster redirections')
  );
}

function byShard(batch: readonly QueuedOutcome[], shards: number): Map<number, QueuedOutcome[]> {
  const groups = new Map<number, QueuedOutcome[]>();
  // By channel first: the checksum of a name costs more than a look at a map.
  const ofChannel = new Map<string, QueuedOutcome[]>();
  for (const queued of batch) {
    const { channel } = queued.outcome;
    let group = ofChannel.get(channel);
    if (group === undefined) {
      const shard = shardOf(channel, shards);
      group = groups.get(shard) ?? [];
      groups.set(shard, group);
      ofChannel.set(channel, group);
    }
    group.push(queued);
  }
  return groups;
}

function chunksOf(queued: readonly QueuedOutcome[]): Chunk[] {
  const now = performance.now();
  const chunks: Chunk[] = [];
  let outcomes: QueuedOutcome[] = [];
  let texts: string[] = [];
  let bytes = 2;
  const cut = () => {
    if (outcomes.length > 0) chunks.push({ outcomes, json: `[${texts.join(',')}]` });
    [outcomes, texts, bytes] = [[], [], 2];
  };
  for (const one of queued) {
    const agoMs = Math.min(AGO_MAX_MS, Math.max(0, Math.round(now - one.queuedAt)));
    const text = outcomeText(one.outcome, agoMs);
    let size = BYTES_A_UNIT * text.length + 1;
    if (bytes + size > OUTCOMES_MAX_BYTES) {
      // Only now it matters how many it really are.
      bytes = texts.reduce((sum, one) => sum + Buffer.byteLength(one) + 1, 2);
      size = Buffer.byteLength(text) + 1;
    }
    if (outcomes.length === OUTCOMES_MAX || bytes + size > OUTCOMES_MAX_BYTES) cut();
    outcomes.push(one);
    texts.push(text);
    bytes += size;
  }
  cut();
  return chunks;
}
