import {
  type Decision,
  endOutage,
  type Hand,
  isHeld,
  isOver,
  keyEnd,
  type Lane,
  learn,
  measure,
  PAUSED,
  RESUMED,
  type Told,
  trial,
} from './lane.js';
import { LaneState } from './lane-state.js';
import { awaitsRelease, blockMs, type Policy } from './policy.js';
import type { Evidence, TransitionKind } from './transition.js';

const NO_INCIDENT = { incident: '', trips: 0 };

/**
 * Every move between the states of one channel: the twin of `lua/lib/{move,due}.lua`. Each move stamps, clears the window and pushes its
 * transition.
 */
export class Lanes extends LaneState {
  /** Takes every change whose time has come, each as of its own time. */
  due(policy: Policy, now: number): void {
    const { real, shadow } = this;
    if (isHeld(real, now)) this.#held(real, now);
    if (this.isForcing && this.forced <= now) this.endForce(now, this.forced, 'expired');
    if (real.state === 'open' && isOver(real, now)) this.#endBlock(policy, now);
    if (real.state === 'half-open' && awaitsRelease(policy)) {
      // New rules: from now on a person decides.
      this.moveEnd(policy, now, now + this.blockMs(policy, real), 'awaits-release');
    } else if (real.state === 'half-open' && isOver(real, now)) {
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
    if (awaitsRelease(policy) && !isPause) {
      // Nobody has released it yet: it goes on, and people are reminded.
      this.moveEnd(policy, now, now + this.blockMs(policy, real), 'awaits-release');
    } else if (policy.halfOpen !== undefined && !isPause) this.#tryAgain(policy, policy.halfOpen.waitMs, now);
    else this.close(policy, real, now, real.ends, 'expired');
  }

  /** open → half-open: the block key stays. */
  #tryAgain(policy: Policy, waitMs: number, now: number): void {
    const { real } = this;
    const at = real.ends;
    this.remember(at + waitMs, now);
    this.next(now);
    Object.assign(real, { reason: 'expired', state: 'half-open', since: at, ends: at + waitMs, step: 0, good: 0 });
    this.clear(policy, real);
    this.keyEnds = real.ends;
    this.push('half-open', real, 'open', at, real.blockedAt, { decision: trial(policy, 0) });
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
    this.next(now);
    const decision = { ...trial(policy, real.step), reason: 'ramp' };
    this.push('half-open', real, 'half-open', now, real.blockedAt, { decision });
  }

  /** The channel in use is degraded, more or less than before. No change of state. */
  changeLevel(now: number, level: string, decision: Partial<Decision> = {}): void {
    const before = this.level;
    this.level = level;
    this.#tell('level', now, now, { decision: { ...decision, reason: 'level', level, before } });
  }

  /** A person holds the channel open, whatever is recorded. No change of state. */
  force(now: number, ends: number, hand: Hand): void {
    this.forced = ends;
    this.isForcing = true;
    this.#tell('forced', now, now, { decision: { until: ends, reason: 'manual' }, hand });
  }

  endForce(now: number, at: number, reason: string, hand?: Hand): void {
    this.forced = at;
    this.isForcing = false;
    this.#tell('force-ended', now, at, { decision: { reason }, hand });
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
    this.next(now);
    const trips = relapse ? lane.trips + 1 : 1;
    // Only a verdict comes with facts: people prove nothing. A trial that had too few outcomes says neither.
    const isJudged = how.decision !== undefined;
    if (isJudged || how.hand || !relapse) measure(policy, lane, now, relapse, isJudged);
    lane.trips = trips;
    const ends = how.ends ?? now + this.blockMs(policy, lane);
    const begun = { block: this.epoch, blockedAt: now, since: now };
    Object.assign(lane, { reason, ...begun, state: 'open', hold: 0, ends });
    if (!relapse) lane.incident = String(this.epoch);
    this.clear(policy, lane);
    this.remember(ends, now);
    if (lane.shadow) {
      // One alert per shadow incident, and nothing is hidden.
      if (!relapse) this.push('observed', lane, 'closed', now, now, how);
    } else {
      this.keyEnds = keyEnd(policy, ends);
      this.push(relapse ? 'relapsed' : 'blocked', lane, from, now, now, how);
    }
    this.stamp(now);
  }

  /** closed → open for as long as the third party asked for: no incident, no relapse, and a watch that runs goes on. */
  pause(policy: Policy, now: number, ends: number, evidence: Evidence[]): void {
    const { real } = this;
    this.next(now);
    Object.assign(real, { reason: PAUSED, block: this.epoch, blockedAt: now, state: 'open', since: now, ends });
    this.clear(policy, real);
    this.remember(ends, now);
    this.keyEnds = ends;
    this.push('paused', real, 'closed', now, now, { decision: { ...NO_INCIDENT, evidence } });
    this.stamp(now);
  }

  /** Too few sources fail for a block: people are told instead. No change of state. */
  suspect(now: number, reason: string, decision: Decision): void {
    this.#tell('suspected', now, now, { decision: { ...decision, reason } }, String(Math.max(this.epoch + 1, now)));
  }

  close(policy: Policy, lane: Lane, now: number, at: number, reason: string, hand?: Hand): void {
    const { state: from, blockedAt } = lane;
    const isPause = lane.reason === PAUSED;
    this.remember(lane.ends, now);
    this.next(now);
    const told = isPause && reason === 'expired' ? RESUMED : reason;
    Object.assign(lane, { reason: told, state: 'closed', since: at, ends: 0 });
    if (!isPause) {
      lane.hold = policy.holdMs > 0 ? at + policy.holdMs : 0;
      if (lane.hold === 0) learn(lane, this.#pastOf(lane));
    }
    this.clear(policy, lane);
    if (!lane.shadow) {
      this.keyEnds = -2;
      const decision = isPause ? { ...NO_INCIDENT, evidence: [] } : undefined;
      this.push(isPause ? 'resumed' : 'recovered', lane, from, at, blockedAt, { hand, decision });
    }
    this.stamp(now);
  }

  /** @param hand who moved it, and is then who blocks; absent: nobody did */
  moveEnd(policy: Policy, now: number, ends: number, reason: string, hand?: Hand): void {
    const { real } = this;
    const { ends: before, state: from } = real;
    endOutage(real);
    real.ends = ends;
    if (hand) real.reason = reason;
    this.keyEnds = keyEnd(policy, ends);
    this.remember(ends, now);
    this.next(now);
    if (reason === 'awaits-release' && from === 'half-open') Object.assign(real, { state: 'open', since: now });
    const later = from !== real.state || ends === -1 || (before !== -1 && ends > before);
    const kind = later ? 'extended' : 'shortened';
    this.push(kind, real, from, now, real.blockedAt, { hand, decision: { reason } });
    this.stamp(now);
  }

  #held(lane: Lane, now: number): void {
    const at = lane.hold;
    Object.assign(lane, { hold: 0, reason: 'held' });
    learn(lane, this.#pastOf(lane));
    this.next(now);
    if (!lane.shadow) this.push('held', lane, 'closed', at, 0, {});
    this.stamp(now);
  }

  /** Length of a block that begins, or goes on, now. */
  blockMs({ block }: Policy, lane: Lane): number {
    return blockMs(block, { trips: lane.trips, past: this.#pastOf(lane) }, this.epoch);
  }

  /** What was learned in mode `observe` holds until the channel has an incident of its own. */
  #pastOf(lane: Lane): readonly number[] {
    return lane === this.real && lane.past.length === 0 ? this.shadow.past : lane.past;
  }

  /** News about a channel in use that is no change of state. @param incident its name, where no incident is on */
  #tell(kind: TransitionKind, now: number, at: number, how: Told, incident = ''): void {
    this.next(now);
    // Of no block, or an end that nobody was told of would be told with it.
    const named = { block: 0, trips: 0, ...(this.real.hold === 0 ? { incident } : {}) };
    this.push(kind, this.real, 'closed', at, 0, { ...how, decision: { ...how.decision, ...named } });
    this.stamp(now);
  }
}
