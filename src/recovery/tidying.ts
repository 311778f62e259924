import { tidyLog } from '../channel/tidy.js';
import type { RedisClient } from '../redis/client.js';
import { isIncurable, withDeadline } from '../redis/deadline.js';
import type { Keys } from '../redis/keys.js';
import type { LiveRules } from '../rules/port.js';
import { HOUSEKEEPING_BATCH } from './housekeeping.js';

/** Between two looks at a log lies a tenth of its span, within these bounds. */
const EVERY_MS = { least: 5_000, most: 60_000 };
/** Logs looked at in one turn. What is due beyond it waits for the next turn, the least busy longest. */
const LOGS_A_TURN = 50;
const SEEN_FOR_MS = 10_000;
const DEADLINE_MS = 2_000;

export type TidierOptions = {
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly rules: Pick<LiveRules, 'policyFor' | 'namedChannels'>;
  readonly freshForMs: number;
  /** Channels that have traffic, the busiest first. */
  readonly seen?: () => Promise<Iterable<string>>;
  /** A monotonic clock, ms. */
  readonly clock?: () => number;
};

export type Tidier = {
  /**
   * Looks at the call logs that are due, the busiest first, and removes from each what no verdict depends on any more. Resolves to the
   * calls removed.
   *
   * @throws what Redis answers; the next turn goes on
   */
  turn(): Promise<number>;
};

/** Keeps call logs small whose channels went quiet: the others are tidied by every outcome that is recorded. */
export function createTidier({ client, keys, rules, freshForMs, ...options }: TidierOptions): Tidier {
  const { clock = () => performance.now() } = options;
  let seen = { channels: [] as string[], at: Number.NEGATIVE_INFINITY };
  let dueAt = new Map<string, number>();

  async function traffic(): Promise<string[]> {
    if (options.seen === undefined || clock() - seen.at < SEEN_FOR_MS) return seen.channels;
    seen = { ...seen, at: clock() };
    // It only says where to look first: without it those looked at before, and those named in the rules, go on.
    const channels = await options.seen().catch(() => seen.channels);
    seen = { ...seen, channels: [...channels] };
    return seen.channels;
  }

  async function tidy(channel: string, spanMs: number): Promise<number> {
    const everyMs = Math.min(EVERY_MS.most, Math.max(EVERY_MS.least, spanMs / 10));
    dueAt.set(channel, clock() + everyMs);
    try {
      const removed = await tidyLog(client, keys, channel, { spanMs, freshForMs, most: HOUSEKEEPING_BATCH });
      // There may be more of it.
      if (removed === HOUSEKEEPING_BATCH) dueAt.delete(channel);
      return removed;
    } catch (error) {
      // A key of another type: its outcomes are in the dead letters, with the reason.
      if (isIncurable(error)) return 0;
      dueAt.delete(channel);
      throw error;
    }
  }

  async function turn(): Promise<number> {
    const spans = new Map<string, number>();
    for (const channel of [...(await traffic()), ...rules.namedChannels()]) {
      const { window } = rules.policyFor(channel);
      if (window.kind === 'log') spans.set(channel, window.spanMs);
    }
    dueAt = new Map([...dueAt].filter(([channel]) => spans.has(channel)));
    const due = [...spans].filter(([channel]) => (dueAt.get(channel) ?? 0) <= clock()).slice(0, LOGS_A_TURN);
    const removed = await Promise.all(due.map(([channel, spanMs]) => tidy(channel, spanMs)));
    return removed.reduce((sum, n) => sum + n, 0);
  }

  return { turn: () => withDeadline(turn(), DEADLINE_MS, 'the tidying of call logs') };
}
