import { leastBad } from '../domain/floor.js';
import { isDrawn, type Trial } from '../domain/trial.js';
import type { LiveRules } from '../rules/port.js';
import { isByHand, type View } from './view.js';

/** How to tell an item's channel: the name of its property, or a function. */
export type ByChannel<T> = keyof T | ((item: T) => string);

export type SelectOptions<T> = {
  /** Default: the item itself if it is a string, otherwise its property `channel`. */
  readonly by?: ByChannel<T>;
  /**
   * Who asks (a user's id): a half-open channel is shown to its share of users, the same ones in every process. Without a key it stays
   * hidden, and so it does where it lends permits: those are for calls, not for lists.
   */
  readonly key?: string;
};

export type Selection<T> = {
  /** The caller's own elements, in the caller's order. */
  readonly items: T[];
  /** Channels among them that are blocked and shown only to keep a group's `minVisible`. Usually empty. */
  readonly floored: readonly string[];
  /** How old the last snapshot of Redis is; `Infinity` if there never was one. */
  readonly ageMs: number;
};

export type Lookup = {
  /** The canonical name, whether it is hidden, and for whom not; `undefined` for what is no name of a channel. */
  readonly find: (name: unknown) => { channel: string; hidden?: View; trial?: Trial } | undefined;
  readonly rules: Pick<LiveRules, 'policyFor' | 'minVisible'> | undefined;
};

/**
 * Leaves out the items whose channels are blocked, but never more than the groups' floors allow. An item without a channel stays: to
 * hide it would be a guess.
 */
export function selectVisible<T>(
  items: readonly T[],
  { by, key }: SelectOptions<T>,
  lookup: Lookup,
): Omit<Selection<T>, 'ageMs'> {
  const found = items.map((item) => {
    const entry = lookup.find(channelOf(item, by));
    return entry?.trial && isDrawn(entry.trial, key) ? { channel: entry.channel } : entry;
  });
  if (!found.some((entry) => entry?.hidden)) return { items: [...items], floored: [] };
  const { rules } = lookup;
  const candidates = found.flatMap((entry) => {
    if (entry === undefined) return [];
    const { channel, hidden } = entry;
    const group = rules?.policyFor(channel).group;
    const blocked = hidden !== undefined;
    const { state = 'closed', endsAt = 0 } = hidden ?? {};
    return [{ channel, group, blocked, state, endsAt, byHand: blocked && isByHand(hidden) }];
  });
  const floored = rules ? leastBad(candidates, (group) => rules.minVisible(group)) : [];
  const shown = new Set(floored);
  const visible = items.filter((_item, index) => !found[index]?.hidden || shown.has(found[index].channel));
  return { items: visible, floored };
}

function channelOf<T>(item: T, by: ByChannel<T> | undefined): unknown {
  if (typeof by === 'function') return by(item);
  if (by !== undefined) return item?.[by];
  return typeof item === 'object' && item !== null ? (item as { channel?: unknown }).channel : item;
}
