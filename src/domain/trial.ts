/** Who is let through while a channel is half-open: a share of users, or so many calls at once. */
export type Trial = {
  /** Which step of it, 0 the first. */
  readonly step: number;
  /** Epoch of the block before it: names the attempt. */
  readonly block: number;
  /** Hundredths of a percent of users. Absent: `permits`. */
  readonly share?: number;
  readonly permits?: number;
};

/**
 * Whether this user is among the share. The same answer everywhere and for as long as the attempt lasts; whoever is in stays in as the
 * share grows, and another attempt draws other users. Nobody without a key is.
 */
export function isDrawn({ block, share = 0 }: Trial, key: unknown): boolean {
  return isKey(key) && hash(`${block}:${key}`) % 10_000 < share;
}

/** Whether this names a user. Callers hand over what they have: `null` for somebody who is not logged in must not stand for them all. */
export function isKey(key: unknown): key is string | number {
  return (typeof key === 'string' && key !== '') || (typeof key === 'number' && !Number.isNaN(key));
}

/** FNV-1a over UTF-16 units, then the finalizer of MurmurHash3 (both public domain): FNV's low bits alone follow those of the last unit. */
function hash(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
