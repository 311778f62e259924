import type { State } from './transition.js';

/** What the floor has to know about one channel of a list. */
export type FloorCandidate = {
  readonly channel: string;
  /** Group whose floor it counts for; a channel without one has no floor. */
  readonly group?: string;
  readonly blocked: boolean;
  readonly state: State;
  /** When the block ends, Redis ms; -1: never. */
  readonly endsAt: number;
  /** Blocked by a person: somebody decided, so the floor does not overrule. */
  readonly byHand: boolean;
};

/**
 * Which blocked channels a reader must show all the same, so that every group keeps its `minVisible`: half-open ones first, then
 * the block that ends soonest, then the caller's order. Counts channels, not items: two ways to pay through one channel are one.
 * A channel blocked by hand is never shown, even if that leaves a group below its floor.
 */
export function leastBad(
  candidates: readonly FloorCandidate[],
  minVisible: (group: string) => number,
): readonly string[] {
  const shown: string[] = [];
  for (const [group, members] of byGroup(candidates)) {
    const visible = members.filter((member) => !member.blocked).length;
    const missing = minVisible(group) - visible;
    if (missing <= 0) continue;
    const choice = members.filter((member) => member.blocked && !member.byHand).sort(compareBadness);
    shown.push(...choice.slice(0, missing).map((member) => member.channel));
  }
  return shown;
}

/** The members of each group in the caller's order, every channel once. */
function byGroup(candidates: readonly FloorCandidate[]): Map<string, FloorCandidate[]> {
  const groups = new Map<string, FloorCandidate[]>();
  const seen = new Set<string>();
  for (const candidate of candidates) {
    if (candidate.group === undefined || seen.has(candidate.channel)) continue;
    seen.add(candidate.channel);
    const members = groups.get(candidate.group);
    if (members) members.push(candidate);
    else groups.set(candidate.group, [candidate]);
  }
  return groups;
}

/** Equal badness keeps the caller's order, because sorting is stable. */
function compareBadness(a: FloorCandidate, b: FloorCandidate): number {
  const trying = Number(b.state === 'half-open') - Number(a.state === 'half-open');
  if (trying !== 0) return trying;
  const [endA, endB] = [a, b].map(({ endsAt }) => (endsAt === -1 ? Number.MAX_SAFE_INTEGER : endsAt));
  return endA! - endB!;
}
