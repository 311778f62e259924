import {
  type Decision,
  type Hand,
  isHeld,
  isOver,
  keyEnd,
  type Lane,
  lifeEnd,
  newLane,
  PAUSED,
  RESUMED,
  type Told,
  transitionOf,
  trial,
} from './lane.js';
import { blockMs, type Policy } from './policy.js';
import type { Evidence, State, Transition, TransitionKind } from './transition.js';

const NO_INCIDENT = { incident: '', trips: 0 };

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
  /** How far the channel is degraded while it is in use; '' not at all. */
  level = '';
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
      .map((lane) => (lane.state === 'closed' ? lane.hold : lane.ends))
      .filter((at) => at !== 0);
    const known = times.filter((at) => at !== -1);
    if (known.length > 0) return Math.min(...known);
    return times.length > 0 || this.level !== '' ? -1 : 0;
  }

  /** Takes every change whose time has come, each as of its own time. */
  due(policy: Policy, now: number): void {
    const { real, shadow } = this;
    if (isHeld(real, now)) this.#held(real, now);
    if (real.state === 'open' && isOver(real, now)) this.#endBlock(policy, now);
    if (real.state === 'half-open' && isOver(real, now)) {
      // What begins as of now, not of its own time, cannot be due again at once.
      if (policy.halfOpen?.reopens) this.open(policy, real, now, 'half-open-timeout', {});
      else this.close(policy, real, now, real.ends, 'half-open-timeout');
    }
    if (isHeld(real, now)) this.#held(real, now);
    if (shadow.state === 'open' && isOver(shadow, now)) this.close(policy, shadow, now, shadow.ends, 'expired');
    if (isHeld(shadow, now)) this.#held(shadow, now);
  }

  #endBlock(policy: Policy, now: number): void {
    const { real } = this;
    const isPause = real.reason === PAUSED;
    if (policy.isReleasedByHand && !isPause) {
      // Nobody has released it yet: it goes on, and people are reminded.
      this.moveEnd(policy, now, now + blockMs(policy.block, real.trips, this.epoch), 'awaits-release');
    } else if (policy.halfOpen !== undefined && !isPause) this.#tryAgain(policy, policy.halfOpen.waitMs, now);
    else this.close(policy, real, now, real.ends, 'expired');
  }

  /** open → half-open: the block key stays. */
  #tryAgain(policy: Policy, waitMs: number, now: number): void {
    const { real } = this;
    const at = real.ends;
    this.#remember(at + waitMs, now);
    this.#next(now);
    Object.assign(real, { reason: 'expired', state: 'half-open', since: at, ends: at + waitMs, step: 0, good: 0 });
    this.#clear(policy, real);
    this.keyEnds = real.ends;
    this.#push('half-open', real, 'open', at, real.blockedAt, { decision: trial(policy, 0) });
    this.stamp(now);
  }

  /** One good outcome in half-open: enough of them lead to the next step, and after the last to closed. */
  gain(policy: Policy, now: number): void {
    const { real } = this;
    const { close = 1, steps = [] } = policy.halfOpen ?? {};
    real.good += 1;
    if (real.good < close) return;
    if (real.step + 1 >= steps.length) {
      this.close(policy, real, now, now, 'half-open-success');
      return;
    }
    Object.assign(real, { step: real.step + 1, good: 0 });
    this.#next(now);
    const decision = { ...trial(policy, real.step), reason: 'ramp' };
    this.#push('half-open', real, 'half-open', now, real.blockedAt, { decision });
  }

  /** The channel in use is degraded, more or less than before. No change of state. */
  changeLevel(now: number, level: string, decision: Partial<Decision> = {}): void {
    const { real, level: before } = this;
    this.level = level;
    this.#next(now);
    const told = { ...decision, reason: 'level', level, before, ...(real.hold === 0 ? { incident: '' } : {}) };
    this.#push('level', real, 'closed', now, 0, { decision: told });
    this.stamp(now);
  }

  open(
    policy: Policy,
    lane: Lane,
    now: number,
    reason: string,
    how: { ends?: number | undefined; decision?: Partial<Decision>; hand?: Hand },
  ): void {
    const relapse = lane.hold > 0 || lane.state === 'half-open';
    const from = lane.state;
    this.#next(now);
    const trips = relapse ? lane.trips + 1 : 1;
    const ends = how.ends ?? now + blockMs(policy.block, trips, this.epoch);
    const begun = { block: this.epoch, blockedAt: now, since: now };
    Object.assign(lane, { reason, trips, ...begun, state: 'open', hold: 0, ends });
    if (!relapse) lane.incident = String(this.epoch);
    this.#clear(policy, lane);
    this.#remember(ends, now);
    if (lane.shadow) {
      // One alert per shadow incident, and nothing is hidden.
      if (!relapse) this.#push('observed', lane, 'closed', now, now, how);
    } else {
      this.keyEnds = keyEnd(policy, ends);
      this.#push(relapse ? 'relapsed' : 'blocked', lane, from, now, now, how);
    }
    this.stamp(now);
  }

  /** closed → open for as long as the third party asked for: no incident, no relapse, and a watch that runs goes on. */
  pause(policy: Policy, now: number, ends: number, evidence: Evidence[]): void {
    const { real } = this;
    this.#next(now);
    Object.assign(real, { reason: PAUSED, block: this.epoch, blockedAt: now, state: 'open', since: now, ends });
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
    const { state: from, blockedAt } = lane;
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

  /** @param hand who moved it, and is then who blocks; absent: nobody did */
  moveEnd(policy: Policy, now: number, ends: number, reason: string, hand?: Hand): void {
    const { real } = this;
    const before = real.ends;
    real.ends = ends;
    if (hand) real.reason = reason;
    this.keyEnds = keyEnd(policy, ends);
    this.#remember(ends, now);
    this.#next(now);
    const later = ends === -1 || (before !== -1 && ends > before);
    const kind = later ? 'extended' : 'shortened';
    this.#push(kind, real, real.state, now, real.blockedAt, { hand, decision: { reason } });
    this.stamp(now);
  }

  /** The life of the state, as the script sets it whenever it writes the state. */
  stamp(now: number): void {
    this.#expiresAt = lifeEnd([this.real, this.shadow], Math.max(now, this.forced) + 2 * this.#freshForMs, this.#last);
  }

  expire(now: number): void {
    if (this.#expiresAt > now) return;
    Object.assign(this.real, newLane(false));
    Object.assign(this.shadow, newLane(true));
    Object.assign(this, { epoch: 0, forced: 0, level: '' });
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

  #push(kind: TransitionKind, lane: Lane, from: State, at: number, blockedAt: number, how: Told): void {
    const names = { v: 1, kind, channel: this.#channel, epoch: this.epoch, from, at, blockedAt };
    this.outbox.push(transitionOf(names, lane, this.keyEnds, how));
  }

  #next(now: number): void {
    this.epoch = Math.max(this.epoch + 1, now);
  }

  /** A shadow that ends after the mode went back to `on` has no say in the window that is judged now. */
  #clear(policy: Policy, lane: Lane): void {
    if (!lane.shadow || policy.mode === 'observe') this.#clearWindow();
    if (!lane.shadow) this.level = '';
  }

  #remember(ends: number, now: number): void {
    this.#last = Math.max(this.#last, ends === -1 ? now : ends);
  }
}
