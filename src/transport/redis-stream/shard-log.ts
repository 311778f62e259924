import type { RedisClient } from '../../redis/client.js';
import { withDeadline } from '../../redis/deadline.js';
import type { Keys } from '../../redis/keys.js';
import { loadScript, runScript } from '../../redis/script.js';
import type { LogEntry } from '../port.js';
import { decodeEntry } from './decode.js';
import { CALL_MS, GROUP } from './options.js';

const openShardScript = loadScript('open-shard');
const commitScript = loadScript('commit');

export type Opened = {
  what: 'found' | 'created' | 'recreated' | 'raised';
  committed: string;
  /** Entries after `committed`; -1 if it cannot be known. */
  lag: number;
};

/** Makes sure that the shard and its group exist; see `lua/open-shard.lua`. */
export async function openShard(client: RedisClient, keys: Keys, shard: number, remembered: string): Promise<Opened> {
  const reply = await call(runScript(client, openShardScript, [keys.outcomes(shard)], [GROUP, remembered]));
  const [what, committed, lag] = reply as [Opened['what'], string, number];
  return { what, committed, lag };
}

/** Entries `first` to `last` (`count` of them), read on from `from`. */
export type Commit = { from: string; first: string; last: string; count: number };

export type Committed = { result: 'committed' | 'behind' | 'not-holder' | 'gone'; lag: number; lost: number };

/** Moves the committed position forward; see `lua/commit.lua`. */
export async function commitShard(
  client: RedisClient,
  keys: Keys,
  shard: number,
  worker: string,
  commit: Commit,
): Promise<Committed> {
  const { from, first, last, count } = commit;
  const names = [keys.outcomes(shard), keys.lease(shard)];
  const reply = await call(runScript(client, commitScript, names, [worker, GROUP, from, first, last, count]));
  const [result, lag, lost] = reply as [Committed['result'], number, number];
  return { result, lag, lost };
}

export type Read = {
  entries: LogEntry[] /** Length of all fields, in characters: close enough to bytes. */;
  size: number;
};

/**
 * Reads up to `count` entries after `after`, waiting up to `blockMs` for the first one.
 *
 * @throws {DeadlineError} no answer within twice `blockMs` and a second: the connection is dead, whatever it says (redis/ioredis#1888)
 */
export async function readShard(
  blocking: RedisClient,
  stream: string,
  after: string,
  count: number,
  blockMs: number,
): Promise<Read> {
  const read = blocking.xread('COUNT', count, 'BLOCK', blockMs, 'STREAMS', stream, after);
  const reply = await withDeadline(read, 2 * blockMs + 1_000, 'XREAD BLOCK');
  const found = reply?.[0]?.[1] ?? [];
  let size = 0;
  const entries = found.map(([id, fields]) => {
    for (const text of fields) size += text.length;
    return decodeEntry(id, fields);
  });
  return { entries, size };
}

/** The group's lag as Redis tells it: -1 if unknown, `undefined` if stream or group are gone. */
export async function shardLag(client: RedisClient, stream: string): Promise<number | undefined> {
  let groups: unknown;
  try {
    groups = await withDeadline(client.xinfo('GROUPS', stream), CALL_MS, 'XINFO GROUPS');
  } catch (error) {
    if (error instanceof Error && error.message.includes('no such key')) return undefined;
    throw error;
  }
  for (const group of groups as unknown[][]) {
    if (group[group.indexOf('name') + 1] !== GROUP) continue;
    const lag = group[group.indexOf('lag') + 1];
    return typeof lag === 'number' ? lag : -1;
  }
  return undefined;
}

/** Removes the entries below `below`, as far as whole nodes of the stream allow. */
export async function trimShard(client: RedisClient, stream: string, below: string): Promise<void> {
  await withDeadline(client.xtrim(stream, 'MINID', '~', below), CALL_MS, 'XTRIM');
}

const call = <T>(promise: Promise<T>) => withDeadline(promise, CALL_MS, 'EVALSHA');
