import { blockMs, type Policy } from './policy.js';
import type { Evidence, State, Transition, TransitionKind } from './transition.js';

const DAY_MS = 86_400_000;
const NO_INCIDENT = { incident: '', trips: 0 };

/** One run of the state machine. The real lane hides the channel; the shadow of mode `observe` only tells. Times in ms. */
export type Lane = {
  readonly shadow: boolean;
  state: State;
  since: number;
  /** End of the block; -1 without end, 0 when not blocked. */
  ends: number;
  /** Watched until then; 0 when not watched. */
  hold: number;
  incident: string;
  trips: number;
  /** Epoch of the last block. */
  block: number;
  reason: string;
};

/** Who does something by hand, and why. */
export type Hand = { readonly actor: string; readonly note: string };

/** The window that decided a block, as its transition tells it. */
export type Decision = Pick<Transition, 'size' | 'recorded' | 'succeeded' | 'slow' | 'threshold' | 'evidence'>;

/** Reason of a block that lasts as long as the third party asked for. */
export const PAUSED = 'rate-limited';
export const RESUMED = 'rate-limit-over';

/**
 * The states of one channel and every move between them: the twin of `lua/lib/{channel,move,due,save}.lua`. Each move stamps, clears the
 * window and pushes its transition.
 */
export class Lanes {
  readonly real = newLane(false);
  readonly shadow = newLane(true);
  /** Transitions decided and not yet announced. */
  readonly outbox: Transition[] = [];
  /** End of the block key: -2 none, -1 without end. */
  keyEnds = -2;
  /** Until then held open by hand: not judged. */
  forced = 0;
  epoch = 0;
  readonly #channel: string;
  readonly #freshForMs: number;
  readonly #clearWindow: () => void;
  #last = 0;
  #expiresAt = Number.POSITIVE_INFINITY;

  constructor(channel: string, freshForMs: number, clearWindow: () => void) {
    this.#channel = channel;
    this.#freshForMs = freshForMs;
    this.#clearWindow = clearWindow;
  }

  get isQuiet(): boolean {
    const { real, shadow, keyEnds, outbox } = this;
    return keyEnds === -2 && outbox.length === 0 && real.state === 'closed' && shadow.state === 'closed';
  }

  /** When somebody must look next: 0 never, -1 unknown (a block without end). */
  nextDue(): number {
    const times = [this.real, this.shadow]
      .map((lane) => (lane.state === 'open' ? lane.ends : lane.hold))
      .filter((at) => at !== 0);
    const known = times.filter((at) => at !== -1);
    return known.length > 0 ? Math.min(...known) : (times[0] ?? 0);
  }

  /** Takes every change whose time has come, each as of its own time. */
  due(policy: Policy, now: number): void {
    for (const lane of [this.real, this.shadow]) {
      if (isHeld(lane, now)) this.#held(lane, now);
      if (lane.state !== 'open' || lane.ends === -1 || lane.ends > now) continue;
      this.close(policy, lane, now, lane.ends, 'expired');
      if (isHeld(lane, now)) this.#held(lane, now);
    }
  }

  open(
    policy: Policy,
    lane: Lane,
    now: number,
    reason: string,
    how: { ends?: number | undefined; decision?: Decision; hand?: Hand },
  ): void {
    const relapse = lane.hold > 0;
    const from = lane.state;
    this.#next(now);
    const trips = relapse ? lane.trips + 1 : 1;
    const ends = how.ends ?? now + blockMs(policy.block, trips);
    Object.assign(lane, { reason, trips, block: this.epoch, state: 'open', since: now, hold: 0, ends });
    if (!relapse) lane.incident = String(this.epoch);
    this.#clear(policy, lane);
    this.#remember(ends, now);
    if (lane.shadow) {
      // One alert per shadow incident, and nothing is hidden.
      if (!relapse) this.#push('observed', lane, 'closed', now, now, how);
    } else {
      this.keyEnds = ends;
      this.#push(relapse ? 'relapsed' : 'blocked', lane, from, now, now, how);
    }
    this.stamp(now);
  }

  /** closed → open for as long as the third party asked for: no incident, no relapse, and a watch that runs goes on. */
  pause(policy: Policy, now: number, ends: number, evidence: Evidence[]): void {
    const { real } = this;
    this.#next(now);
    Object.assign(real, { reason: PAUSED, block: this.epoch, state: 'open', since: now, ends });
    this.#clear(policy, real);
    this.#remember(ends, now);
    this.keyEnds = ends;
    this.#push('paused', real, 'closed', now, now, { decision: { ...NO_INCIDENT, evidence } });
    this.stamp(now);
  }

  /** Too few sources fail for a block: people are told instead. No change of state. */
  suspect(now: number, reason: string, decision: Decision): void {
    const { real } = this;
    this.#next(now);
    const incident = real.hold === 0 ? String(this.epoch) : real.incident;
    const named = { ...decision, reason, incident, block: 0, trips: 0 };
    this.#push('suspected', real, 'closed', now, 0, { decision: named });
    this.stamp(now);
  }

  close(policy: Policy, lane: Lane, now: number, at: number, reason: string, hand?: Hand): void {
    const { state: from, since: blockedAt } = lane;
    const isPause = lane.reason === PAUSED;
    this.#remember(lane.ends, now);
    this.#next(now);
    const told = isPause && reason === 'expired' ? RESUMED : reason;
    Object.assign(lane, { reason: told, state: 'closed', since: at, ends: 0 });
    if (!isPause) lane.hold = policy.holdMs > 0 ? at + policy.holdMs : 0;
    this.#clear(policy, lane);
    if (!lane.shadow) {
      this.keyEnds = -2;
      const decision = isPause ? { ...NO_INCIDENT, evidence: [] } : undefined;
      this.#push(isPause ? 'resumed' : 'recovered', lane, from, at, blockedAt, { hand, decision });
    }
    this.stamp(now);
  }

  moveEnd(now: number, ends: number, reason: string, hand: Hand): void {
    const { real } = this;
    const before = real.ends;
    Object.assign(real, { ends, reason });
    this.keyEnds = ends;
    this.#remember(ends, now);
    this.#next(now);
    const later = ends === -1 || (before !== -1 && ends > before);
    this.#push(later ? 'extended' : 'shortened', real, 'open', now, real.since, { hand });
    this.stamp(now);
  }

  /** The life of the state, as the script sets it whenever it writes the state. */
  stamp(now: number): void {
    if (this.real.state !== 'closed' || this.shadow.state !== 'closed') {
      this.#expiresAt = Number.POSITIVE_INFINITY;
      return;
    }
    const watched = Math.max(this.real.hold, this.shadow.hold);
    const kept = Math.max(now + 2 * this.#freshForMs, this.#last + DAY_MS, this.forced + 2 * this.#freshForMs);
    this.#expiresAt = watched > 0 ? Math.max(kept, watched + DAY_MS) : kept;
  }

  expire(now: number): void {
    if (this.#expiresAt > now) return;
    Object.assign(this.real, newLane(false));
    Object.assign(this.shadow, newLane(true));
    Object.assign(this, { epoch: 0, forced: 0 });
    this.#last = 0;
    this.#expiresAt = Number.POSITIVE_INFINITY;
  }

  #held(lane: Lane, now: number): void {
    const at = lane.hold;
    Object.assign(lane, { hold: 0, reason: 'held' });
    this.#next(now);
    if (!lane.shadow) this.#push('held', lane, 'closed', at, 0, {});
    this.stamp(now);
  }

  #push(
    kind: TransitionKind,
    lane: Lane,
    from: State,
    at: number,
    blockedAt: number,
    how: { decision?: Partial<Transition> | undefined; hand?: Hand | undefined },
  ): void {
    const { state: to, ends: until, reason, incident, trips, block } = lane;
    const { actor, note } = how.hand ?? {};
    const hand = { ...(actor ? { actor } : {}), ...(note ? { note } : {}) };
    const names = { v: 1, kind, channel: this.#channel, epoch: this.epoch };
    const usual = { ...names, at, from, to, until, reason, incident, trips, block, blockedAt };
    this.outbox.push({ ...usual, evidence: [], ...hand, ...how.decision });
  }

  #next(now: number): void {
    this.epoch = Math.max(this.epoch + 1, now);
  }

  /** A shadow that ends after the mode went back to `on` has no say in the window that is judged now. */
  #clear(policy: Policy, lane: Lane): void {
    if (!lane.shadow || policy.mode === 'observe') this.#clearWindow();
  }

  #remember(ends: number, now: number): void {
    this.#last = Math.max(this.#last, ends === -1 ? now : ends);
  }
}

function newLane(shadow: boolean): Lane {
  return { shadow, state: 'closed', since: 0, ends: 0, hold: 0, incident: '', trips: 0, block: 0, reason: '' };
}

function isHeld(lane: Lane, now: number): boolean {
  return lane.state === 'closed' && lane.hold > 0 && lane.hold <= now;
}
