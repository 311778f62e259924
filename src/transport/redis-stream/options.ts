import type { RedisClient } from '../../redis/client.js';
import type { Keys } from '../../redis/keys.js';
import { type Log, SILENT } from '../quiet-log.js';

/** Lives in Redis (`XINFO GROUPS`): which group's position is ours. */
export const GROUP = 'fuseline';

/** How many shards a log begins with, if nobody says otherwise. */
export const DEFAULT_SHARDS = 4;

export type ReaderOptions = {
  /** For everything but blocking reads. Opened and closed by the caller. */
  client: RedisClient;
  /** Opens one more connection, for the blocking reads of one shard. Closed by the reader. */
  openClient: () => RedisClient;
  keys: Keys;
  /** Names this reader in leases and heartbeats: unique for every process that ever runs. */
  worker: string;
  /** Only for a log that is new: after that the number in Redis holds. */
  shards?: number;
  /** How far to go back after a failover, and what a trim leaves; ms. */
  rewindMs?: number;
  /** Longest time that Redis may hold a read; ms. */
  blockMs?: number;
  /** Most entries in one read. It begins with few and grows, so that huge entries show before many are asked for. */
  maxCount?: number;
  /** A lease's length; it is renewed three times within; ms. */
  leaseMs?: number;
  /** Other servers whose failover must make this reader go back too: those of the channels, where they are not the log's. */
  watch?: readonly RedisClient[];
  log?: Log;
};

export type Settings = Required<ReaderOptions>;

export function withDefaults(options: ReaderOptions): Settings {
  return {
    shards: DEFAULT_SHARDS,
    rewindMs: 30_000,
    blockMs: 2_000,
    maxCount: 2_000,
    leaseMs: 10_000,
    watch: [],
    log: SILENT,
    ...options,
  };
}

/** Every call to Redis is raced against this; ms. */
export const CALL_MS = 2_000;
