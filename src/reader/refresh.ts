import { readFeedTip } from '../channel/feed.js';
import { type ChannelRead, findBlocked, readAgenda, readChannels, readTime } from '../channel/snapshot.js';
import type { RedisClient } from '../redis/client.js';
import { withDeadline } from '../redis/deadline.js';
import type { Keys } from '../redis/keys.js';
import type { RedisClock } from './clock.js';
import type { FeedPosition } from './follow.js';
import type { Views } from './views.js';

/** Nobody waits for these reads, so they may take longer than a caller's 50 ms. */
const BACKGROUND_DEADLINE_MS = 2_000;

export type RefreshDeps = {
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly clock: RedisClock;
  readonly views: Views;
  readonly position: FeedPosition;
  /** Channels to look at although the agenda may not name them: asked about here, named in the rules. */
  readonly wanted: () => Iterable<string>;
  readonly onGap: (reason: string) => void;
  readonly onFault: (read: ChannelRead) => void;
};

/**
 * One snapshot: the feed's end first, so that whatever changes while the channels are read comes through the feed as well; then the
 * agenda and everything wanted. Returns `performance.now()` as of which it holds.
 *
 * @throws what Redis answers, or {@link DeadlineError}
 */
export async function takeSnapshot(deps: RefreshDeps): Promise<number> {
  const { client, keys, clock, views, position } = deps;
  const before = position.mark();
  const begunAt = performance.now();
  const opening = Promise.all([readTime(client), readFeedTip(client, keys), readAgenda(client, keys)]);
  const [time, tip, agenda] = await withDeadline(opening, BACKGROUND_DEADLINE_MS, 'the feed and the agenda');
  clock.set(time);
  const lost = before && position.lost(tip, before);
  const full = new Set([...agenda, ...views.unsettled()]);
  const light = [...new Set(deps.wanted())].filter((channel) => !full.has(channel));
  const foreign = await withDeadline(findBlocked(client, keys, light), BACKGROUND_DEADLINE_MS, 'EXISTS of block keys');
  const channels = [...full, ...foreign];
  const reads = await withDeadline(
    readChannels(client, keys, channels),
    BACKGROUND_DEADLINE_MS,
    'the states of channels',
  );
  // Only now is anything changed: a snapshot that fails half-way leaves the place in the feed as it was, and no gap is forgotten.
  if (before === undefined || lost !== undefined) position.jump(tip);
  if (lost !== undefined) deps.onGap(lost);
  settleAll(deps, reads, begunAt, 'snapshot');
  views.begin(time.redisMs);
  views.endDue();
  return begunAt;
}

/**
 * Reads single channels soon after the feed or a caller named them: the feed does not say when the block key goes, nor that a foreign
 * hand set one.
 *
 * @throws as {@link takeSnapshot}
 */
export async function checkChannels(deps: RefreshDeps, channels: readonly string[]): Promise<void> {
  const begunAt = performance.now();
  const reading = readChannels(deps.client, deps.keys, channels);
  settleAll(deps, await withDeadline(reading, BACKGROUND_DEADLINE_MS, 'the states of channels'), begunAt, 'check');
}

function settleAll(deps: RefreshDeps, reads: ChannelRead[], begunAt: number, how: 'snapshot' | 'check'): void {
  for (const read of reads) {
    if (read.fault !== undefined) deps.onFault(read);
    deps.views.settle(read, begunAt, how);
  }
}
