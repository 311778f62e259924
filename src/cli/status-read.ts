import { findBlocked, readAgenda, readChannels, readTime } from '../channel/snapshot.js';
import { lastMinute, liveWorkers } from '../intake/last-minute.js';
import type { ChannelStats } from '../intake/stats.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { shardLag } from '../transport/redis-stream/shard-log.js';
import { listShards } from '../transport/redis-stream/shards.js';
import { answered } from './redis.js';
import { type LoadInForce, rulesUnderLoad } from './rules-under-load.js';
import { type ChannelStatus, channelStatus, readMore } from './status-channel.js';

export type Status = {
  readonly v: 1;
  readonly nowMs: number;
  readonly rules: { readonly version: number; readonly refused?: string; readonly empty: boolean };
  readonly workers: { readonly outcomes: number };
  /** Where a policy is dynamic, or somebody has set a load. */
  readonly load?: LoadInForce;
  readonly log: { readonly shards: number /** Entries not yet judged; `null` unknown. */; readonly lag: number | null };
  /** Channels that are not plainly closed. */
  readonly notClosed: number;
  readonly channels: readonly ChannelStatus[];
};

export type StatusSources = {
  readonly main: RedisClient;
  readonly log: RedisClient;
  readonly keys: Keys;
  /** How many of the busiest channels to add. */
  readonly busiest: number;
  /** Asks a log that is not in Redis; default: the one that is. */
  readonly askLog?: () => Promise<Status['log']>;
};

/** Reads everything that `status` shows; changes nothing. @throws {CliError} Redis does not answer */
export async function readStatus({ main, log, keys, busiest, askLog }: StatusSources): Promise<Status> {
  const [{ redisMs }, agenda, rules, workers] = await Promise.all([
    answered(readTime(main), 'the time'),
    answered(readAgenda(main, keys), 'the agenda'),
    rulesUnderLoad(main, keys),
    answered(liveWorkers(log, keys), 'the list of workers'),
  ]);
  const nowMs = Math.round(redisMs);
  const load = rules.loadAt(nowMs);
  const counts = await answered(lastMinute(main, keys, workers), 'the counts of the workers');
  const calls = (channel: string) => total(counts.get(channel));
  const top = [...counts.keys()].sort((a, b) => calls(b) - calls(a)).slice(0, busiest);
  const known = new Set([...agenda, ...top]);
  // A key that another program has just set: the workers find it with the channel's next outcome, readers at once.
  const others = rules.namedChannels().filter((channel) => !known.has(channel));
  const foreign = await answered(findBlocked(main, keys, others), 'the block keys');
  const names = [...known, ...foreign];
  const reads = await answered(readChannels(main, keys, names), 'the states of channels');
  const more = await answered(
    eachOf(reads, (read) => readMore(main, keys, read.channel)),
    'the windows of channels',
  );
  const channels = reads.map((read, i) => channelStatus(read, more[i]!, { rules, nowMs }, counts.get(read.channel)));
  const { version, empty, refused } = rules;
  return {
    v: 1,
    nowMs,
    rules: { version, empty, ...(refused === undefined ? {} : { refused }) },
    workers: { outcomes: workers.length },
    ...(load === undefined ? {} : { load }),
    log: await (askLog === undefined ? answered(logStatus(log, keys), 'the lag of the log') : askLog()),
    notClosed: agenda.length,
    channels: channels.sort(
      (a, b) =>
        Number(b.blocked) - Number(a.blocked) ||
        calls(b.channel) - calls(a.channel) ||
        (a.channel < b.channel ? -1 : 1),
    ),
  };
}

const total = (counts?: ChannelStats) => (counts === undefined ? 0 : counts.successes + counts.failures);

async function logStatus(log: RedisClient, keys: Keys): Promise<Status['log']> {
  const shards = await listShards(log, keys);
  // Nobody has laid them out yet; whoever writes all the same is not seen.
  if (shards.length === 0) return { shards: 0, lag: null };
  const lags = await Promise.all(shards.map((shard) => shardLag(log, keys.outcomes(shard))));
  // A shard that nobody has written to has no group yet, and nothing to read.
  const known = lags.map((lag) => lag ?? 0);
  return { shards: shards.length, lag: known.includes(-1) ? null : known.reduce((sum, lag) => sum + lag, 0) };
}

const AT_ONCE = 100;

async function eachOf<T, R>(items: readonly T[], act: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let at = 0; at < items.length; at += AT_ONCE)
    results.push(...(await Promise.all(items.slice(at, at + AT_ONCE).map(act))));
  return results;
}
