import type { Incident } from './incidents.js';

/** An incident that one set of rules has and the other has not, or has otherwise. */
export type Difference = {
  readonly channel: string;
  /** `longer`, `shorter`: for how long the second set would have blocked in it; `moved`: as long, at another time. */
  readonly kind: 'only-first' | 'only-second' | 'longer' | 'shorter' | 'moved';
  readonly first?: Incident;
  readonly second?: Incident;
};

/**
 * The incidents that differ between two sets of rules, by time. Two incidents of one channel are the same trouble if they overlap, from
 * the first block to the end of the last; each is paired once, with the first that overlaps.
 */
export function compareIncidents(first: readonly Incident[], second: readonly Incident[]): Difference[] {
  const others = byChannel(second);
  const differences: Difference[] = [];
  const paired = new Set<Incident>();
  for (const one of first) {
    const other = others.get(one.channel)?.find((each) => !paired.has(each) && overlap(one, each));
    if (other === undefined) differences.push({ channel: one.channel, kind: 'only-first', first: one });
    else {
      paired.add(other);
      const kind = compare(one, other);
      if (kind !== 'same') differences.push({ channel: one.channel, kind, first: one, second: other });
    }
  }
  for (const one of second)
    if (!paired.has(one)) differences.push({ channel: one.channel, kind: 'only-second', second: one });
  return differences.sort((a, b) => beginning(a) - beginning(b));
}

function beginning({ first, second }: Difference): number {
  return Math.min(...[first, second].flatMap((one) => (one === undefined ? [] : one.blocks[0]!.from)));
}

/** How long it blocked in all; an end that was not reached counts as planned. */
export function blockedMs({ blocks }: Incident): number {
  return blocks.reduce((sum, { from, until }) => sum + until - from, 0);
}

function compare(one: Incident, other: Incident): Difference['kind'] | 'same' {
  const [a, b] = [blockedMs(one), blockedMs(other)];
  if (a !== b) return a < b ? 'longer' : 'shorter';
  const times = ({ blocks }: Incident) => blocks.map(({ from, until }) => `${from}-${until}`).join();
  return times(one) === times(other) ? 'same' : 'moved';
}

function overlap(one: Incident, other: Incident): boolean {
  const begin = ({ blocks }: Incident) => blocks[0]!.from;
  const end = ({ blocks }: Incident) => blocks.at(-1)!.until;
  return begin(one) <= end(other) && begin(other) <= end(one);
}

function byChannel(incidents: readonly Incident[]): Map<string, Incident[]> {
  const found = new Map<string, Incident[]>();
  for (const one of incidents) {
    const list = found.get(one.channel);
    if (list === undefined) found.set(one.channel, [one]);
    else list.push(one);
  }
  return found;
}
