import { Transition } from '../domain/transition.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';

/** How many transitions the feed keeps, about. A reader that falls further behind notices the gap and takes a new snapshot. */
export const FEED_LENGTH = 10_000;

/** One entry of the feed. `transition` is absent where its kind, or its shape, is none that this version knows. */
export type FeedEntry = { readonly id: string; readonly transition?: Transition };

/**
 * Where the feed stands. `added` counts every entry ever appended, `removed` those that are gone from it: together they tell whether
 * something was trimmed before a reader saw it, which ids alone cannot.
 */
export type FeedTip = { readonly id: string; readonly added: number; readonly removed: number };

/**
 * Appends a transition to the feed. Appending one twice is harmless: readers go by its epoch.
 *
 * @throws what Redis answers
 */
export async function appendToFeed(client: RedisClient, keys: Keys, transition: Transition): Promise<void> {
  const fields = [
    ...['v', '1', 'channel', transition.channel, 'kind', transition.kind],
    ...['epoch', String(transition.epoch), 'transition', JSON.stringify(transition)],
  ];
  await client.xadd(keys.feed, 'MAXLEN', '~', FEED_LENGTH, '*', ...fields);
}

/** The feed's last id and counts; `0-0` and zeros where nobody has appended yet. Needs Redis 7.0 (`entries-added`). */
export async function readFeedTip(client: RedisClient, keys: Keys): Promise<FeedTip> {
  try {
    const reply = (await client.xinfo('STREAM', keys.feed)) as unknown[];
    const field = (name: string) => reply[reply.indexOf(name) + 1];
    const added = Number(field('entries-added'));
    return { id: String(field('last-generated-id')), added, removed: added - Number(field('length')) };
  } catch (error) {
    if (error instanceof Error && error.message.includes('no such key')) return { id: '0-0', added: 0, removed: 0 };
    throw error;
  }
}

/**
 * Waits up to `blockMs` for entries after `id`, 500 at most; an empty list when none came. Blocks its connection meanwhile.
 *
 * @throws what Redis answers
 */
export async function readFeed(client: RedisClient, keys: Keys, id: string, blockMs: number): Promise<FeedEntry[]> {
  const reply = await client.xread('COUNT', 500, 'BLOCK', blockMs, 'STREAMS', keys.feed, id);
  const entries = reply?.[0]?.[1] ?? [];
  return entries.map(([entryId, fields]) => ({ id: entryId, transition: decode(fields) }));
}

/** Compares two stream ids (`<ms>-<seq>`) as Redis orders them; not as text, where 9-0 comes after 10-0. */
export function compareIds(a: string, b: string): number {
  const [msA, seqA = '0'] = a.split('-');
  const [msB, seqB = '0'] = b.split('-');
  const difference = BigInt(msA!) - BigInt(msB!) || BigInt(seqA) - BigInt(seqB);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

function decode(fields: readonly string[]): Transition | undefined {
  const at = fields.findIndex((name, index) => index % 2 === 0 && name === 'transition');
  if (at === -1) return undefined;
  try {
    const parsed = Transition.safeParse(JSON.parse(fields[at + 1] ?? ''));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}
