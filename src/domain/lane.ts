import { keyGraceMs, type Policy, soonMs } from './policy.js';
import type { State, Transition } from './transition.js';

const DAY_MS = 86_400_000;
/** So many past incidents tell how long a block is. */
const PAST_KEPT = 10;

/** One run of the state machine. The real lane hides the channel; the shadow of mode `observe` only tells. Times in ms. */
export type Lane = {
  readonly shadow: boolean;
  state: State;
  since: number;
  /** End of the block, or of half-open; -1 without end, 0 when closed. */
  ends: number;
  /** Watched until then; 0 when not watched. */
  hold: number;
  incident: string;
  trips: number;
  /** Epoch of the last block, and when it began. */
  block: number;
  blockedAt: number;
  reason: string;
  /** Of half-open: which step, and its good outcomes so far. */
  step: number;
  good: number;
  /** Where a policy learns: from when to when the outage is known to have lasted; 0: none is measured. */
  badFrom: number;
  badTo: number;
  /** How long the longest outage of this incident before it lasted, ms; -1: there was none. */
  bad: number;
  /** Those of the last incidents. */
  past: readonly number[];
};

/** Who does something by hand, and why. */
export type Hand = { readonly actor: string; readonly note: string };

/** The window that decided a block, as its transition tells it. */
export type Decision = Pick<Transition, 'size' | 'recorded' | 'succeeded' | 'slow' | 'threshold' | 'evidence'>;

/** Reason of a block that lasts as long as the third party asked for. */
export const PAUSED = 'rate-limited';
export const RESUMED = 'rate-limit-over';

/** Closed, and nothing known. */
export function newLane(shadow: boolean): Lane {
  return {
    shadow,
    state: 'closed',
    since: 0,
    ends: 0,
    hold: 0,
    incident: '',
    trips: 0,
    block: 0,
    blockedAt: 0,
    reason: '',
    step: 0,
    good: 0,
    badFrom: 0,
    badTo: 0,
    bad: -1,
    past: [],
  };
}

/** The watch after a block is over. */
export function isHeld(lane: Lane, now: number): boolean {
  return lane.state === 'closed' && lane.hold > 0 && lane.hold <= now;
}

/** The end of its block, or of half-open, has come. */
export function isOver(lane: Lane, now: number): boolean {
  return lane.ends !== -1 && lane.ends <= now;
}

/**
 * How long outages are known to have lasted: from a first block to the last that failures gave rise to, one for each incident, the longest.
 * Neither the last block nor time in use is part of it, or each would make the next one longer, however the channel does. To be called
 * before the lane is marked as blocked.
 */
export function measure({ block }: Policy, lane: Lane, now: number, isRelapse: boolean, isJudged: boolean): void {
  const isSoon = now - lane.since <= soonMs(block);
  if (!(isRelapse && isJudged && lane.badFrom > 0 && isSoon)) {
    endOutage(lane);
    if (!isRelapse) lane.bad = -1;
    lane.badFrom = block.ofPast !== undefined && isJudged ? now : 0;
  }
  lane.badTo = now;
}

/** The outage is over, or out of our sight. */
export function endOutage(lane: Lane): void {
  if (lane.badFrom > 0) lane.bad = Math.max(lane.bad, lane.badTo - lane.badFrom);
  lane.badFrom = 0;
}

/** The incident is over. @param past of the lane, or what stands for it */
export function learn(lane: Lane, past: readonly number[]): void {
  endOutage(lane);
  if (lane.bad < 0) return;
  lane.past = [...past, lane.bad].slice(-PAST_KEPT);
  lane.bad = -1;
}

/** When the block key goes. @param ends of the block; -1 without end */
export function keyEnd(policy: Policy, ends: number): number {
  return ends === -1 ? -1 : ends + keyGraceMs(policy);
}

/** What half-open lets through at a step: a share of users, or so many calls at once. */
export function trial({ halfOpen }: Policy, step: number): Pick<Transition, 'step' | 'share' | 'permits'> {
  const share = halfOpen?.steps[step] ?? 0;
  return share > 0 ? { step, share } : { step, permits: halfOpen?.permits ?? 1 };
}

/**
 * Until when a state lives. Late jobs of the last block must still find it.
 *
 * @param least it lives so long in any case @param last latest planned end of any block
 */
export function lifeEnd(lanes: readonly Lane[], least: number, last: number): number {
  if (lanes.some(({ state }) => state !== 'closed')) return Number.POSITIVE_INFINITY;
  const watched = Math.max(...lanes.map(({ hold }) => hold));
  const learnt = lanes.some(({ past }) => past.length > 0) ? last + 90 * DAY_MS : 0;
  return Math.max(least, last + DAY_MS, watched > 0 ? watched + DAY_MS : 0, learnt);
}

/** What a transition tells beside the usual: facts, and whose hand it was. */
export type Told = { readonly decision?: Partial<Transition> | undefined; readonly hand?: Hand | undefined };

/** A transition of a lane as it stands after it. @param keyEnds when the block key goes */
export function transitionOf(
  names: Pick<Transition, 'v' | 'kind' | 'channel' | 'epoch' | 'from' | 'at' | 'blockedAt'>,
  { state: to, ends: until, reason, incident, trips, block, shadow }: Lane,
  keyEnds: number,
  { decision, hand }: Told,
): Transition {
  const signed = { ...(hand?.actor ? { actor: hand.actor } : {}), ...(hand?.note ? { note: hand.note } : {}) };
  const keyUntil = !shadow && to === 'open' && keyEnds !== until ? { keyUntil: keyEnds } : {};
  const usual = { ...names, to, until, reason, incident, trips, block };
  return { ...usual, ...keyUntil, evidence: [], ...signed, ...decision };
}
