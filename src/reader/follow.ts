import { compareIds, type FeedEntry, type FeedTip, readFeed } from '../channel/feed.js';
import type { RedisClient } from '../redis/client.js';
import { backoffMs, DeadlineError, sleep, withDeadline } from '../redis/deadline.js';
import type { Keys } from '../redis/keys.js';
import { readyWithin } from './connections.js';

const BLOCK_MS = 2_000;
/** A blocking read that is this late hangs (half-open connection, frozen server): the connection is given up. */
const WATCHDOG_MS = BLOCK_MS + 2_000;
/** The same for a connection whose greeting is never answered. */
const HANDSHAKE_MS = 10_000;

/**
 * Our place in the feed, shared by the follower, who moves it on, and by the snapshots, which check it: only the commands' connection
 * can tell that entries are gone, because a blocking read just goes on waiting.
 */
export class FeedPosition {
  #id: string | undefined;
  /** How many entries the feed had ever been given when it stood at our id. */
  #added = 0;
  /** Raised with every jump: an answer to a read from before it must not move the new place. */
  #generation = 0;

  get id(): string | undefined {
    return this.#id;
  }

  get generation(): number {
    return this.#generation;
  }

  /** Begins, or begins anew after a gap, at the feed's end. */
  jump(tip: FeedTip): void {
    this.#id = tip.id;
    this.#added = tip.added;
    this.#generation++;
  }

  advance(entries: readonly FeedEntry[]): void {
    this.#id = entries.at(-1)?.id ?? this.#id;
    this.#added += entries.length;
  }

  /**
   * Why entries that we have not seen are gone for good; `undefined` if none are. `before` is our place when the tip was asked for:
   * the follower may have moved on meanwhile.
   */
  lost(tip: FeedTip, before: { id: string; added: number }): string | undefined {
    if (compareIds(tip.id, before.id) < 0 || tip.added < before.added) return 'the feed was deleted or lost writes';
    const skipped = tip.id === this.#id && tip.added > this.#added;
    return skipped || tip.removed > this.#added ? 'the feed was trimmed past our place' : undefined;
  }

  mark(): { id: string; added: number } | undefined {
    return this.#id === undefined ? undefined : { id: this.#id, added: this.#added };
  }
}

export type FollowOptions = {
  /** A connection of its own. */
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly position: FeedPosition;
  readonly onEntries: (entries: readonly FeedEntry[]) => void;
  readonly onAlive: (alive: boolean) => void;
};

/** Follows the feed from the position until the signal. Waits out every outage; never rejects. */
export async function followFeed(options: FollowOptions, signal: AbortSignal): Promise<void> {
  let failures = 0;
  while (!signal.aborted) {
    try {
      await readyWithin(options.client, HANDSHAKE_MS, signal);
      options.onAlive(true);
      await followOnce(options);
      failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      options.onAlive(false);
      if (error instanceof DeadlineError) options.client.disconnect(true);
      await sleep(backoffMs(failures++, 50, 1_000), signal);
    }
  }
}

/** One blocking read and what it brought. */
async function followOnce({ client, keys, position, onEntries }: FollowOptions): Promise<void> {
  const { id, generation } = position;
  if (id === undefined) throw new Error('the feed is followed from a snapshot on, and there is none yet');
  const entries = await withDeadline(readFeed(client, keys, id, BLOCK_MS), WATCHDOG_MS, 'XREAD of the feed');
  if (generation !== position.generation || entries.length === 0) return;
  position.advance(entries);
  onEntries(entries);
}
