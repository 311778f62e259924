import { type ChannelBatch, isAfter, type RecordResult } from './batch.js';
import { CountWindow } from './count-window.js';
import { blockMs, type Policy, windowTtlMs } from './policy.js';
import type { Evidence, State, Transition, TransitionKind } from './transition.js';

const DAY_MS = 86_400_000;
const EVIDENCE_KEPT = 20;

type Lane = {
  readonly shadow: boolean;
  state: State;
  since: number;
  ends: number;
  hold: number;
  incident: string;
  trips: number;
  block: number;
  reason: string;
};
type StoredWindow = { slots: boolean[]; expiresAt: number };
type Fence = { positions: Map<string, { position: string; written: number }>; by: string; at: number };
type Hand = { actor: string; note: string };
type Decision = Pick<Transition, 'size' | 'recorded' | 'succeeded' | 'threshold' | 'evidence'>;

/**
 * One channel as a pure model: the same rules as `lua/record.lua`, `recover.lua` and `override.lua`, without Redis. Time is a
 * parameter (Redis milliseconds, never going back). It is what the property tests hold the scripts against, what
 * `fuseline/testing` runs, and what tells in advance what a set of rules would have done.
 */
export class ChannelModel {
  readonly channel: string;
  readonly freshForMs: number;
  /** Transitions decided and not yet taken away by {@link takeTransitions}. */
  #outbox: Transition[] = [];
  #window: StoredWindow | undefined;
  #evidence: Evidence[] = [];
  #fence: Fence = { positions: new Map(), by: '', at: 0 };
  #real = newLane(false);
  #shadow = newLane(true);
  #epoch = 0;
  #last = 0;
  #forced = 0;
  #expiresAt = Number.POSITIVE_INFINITY;
  /** End of the block key: -2 none, -1 without end. */
  #keyEnds = -2;

  constructor(channel: string, freshForMs = 300_000) {
    this.channel = channel;
    this.freshForMs = freshForMs;
  }

  /** Judges one batch, as `record.lua` does. */
  record(policy: Policy, batch: ChannelBatch, now: number): RecordResult {
    this.#expire(now);
    const result = {
      pushed: 0,
      blocked: false,
      recorded: 0,
      succeeded: 0,
      counted: 0,
      duplicate: 0,
      late: 0,
      stale: 0,
      blockedDropped: 0,
      overridden: 0,
      clipped: 0,
    };
    if (this.#isQuiet() && !batch.results.includes('0')) return result;
    const before = this.#outbox.length;
    this.#due(policy, now);
    const lane = policy.mode === 'observe' ? this.#shadow : this.#real;
    if (this.#real.state === 'open' || lane.state === 'open') result.blockedDropped = batch.results.length;
    else if (this.#forced > now) result.overridden = batch.results.length;
    else this.#judge(policy, batch, now, lane, result);
    return { ...result, pushed: this.#outbox.length - before, blocked: this.#real.state === 'open' };
  }

  /** Takes what is due, as a sweep does. Returns when to look next: 0 never, -1 unknown (a block without end). */
  recover(policy: Policy, now: number): number {
    this.#expire(now);
    this.#due(policy, now);
    return this.nextDue();
  }

  /** By hand. @param forMs 0 by policy, -1 without end */
  block(policy: Policy, now: number, hand: Hand = { actor: '', note: '' }, forMs = 0): void {
    this.#expire(now);
    this.#due(policy, now);
    this.#forced = 0;
    const chosen = forMs === -1 ? -1 : forMs > 0 ? now + forMs : undefined;
    if (this.#real.state === 'open') {
      const ends = chosen ?? now + blockMs(policy.block, this.#real.trips);
      this.#keyEnds = ends;
      this.#moveEnd(now, ends, 'manual', hand);
    } else this.#open(policy, this.#real, now, now, 'manual', { ends: chosen, hand });
    this.#stamp(now);
  }

  /** By hand. @param forMs held open and not judged for so long; 0: judged at once, on an empty window */
  unblock(policy: Policy, now: number, hand: Hand = { actor: '', note: '' }, forMs = 0): void {
    this.#expire(now);
    this.#due(policy, now);
    if (forMs > 0) {
      this.#forced = now + forMs;
      this.#window = undefined;
    }
    if (this.#real.state === 'open') this.#close(policy, this.#real, now, now, 'manual', hand);
    if (forMs > 0) this.#stamp(now);
  }

  takeTransitions(): Transition[] {
    return this.#outbox.splice(0);
  }

  nextDue(): number {
    const times = [this.#real, this.#shadow]
      .map((lane) => (lane.state === 'open' ? lane.ends : lane.hold))
      .filter((at) => at !== 0);
    const known = times.filter((at) => at !== -1);
    return known.length > 0 ? Math.min(...known) : (times[0] ?? 0);
  }

  /** What programs and people can see at `now`, without changing anything. */
  view(now: number): {
    state: State;
    blocked: boolean;
    since: number;
    until: number;
    window: readonly boolean[];
    epoch: number;
    shadow: State;
  } {
    this.#expire(now);
    return {
      state: this.#real.state,
      blocked: this.#keyEnds !== -2,
      since: this.#real.since,
      until: this.#real.ends,
      window: this.#window?.slots ?? [],
      epoch: this.#epoch,
      shadow: this.#shadow.state,
    };
  }

  #judge(
    policy: Policy,
    batch: ChannelBatch,
    now: number,
    lane: Lane,
    result: { -readonly [K in keyof RecordResult]: RecordResult[K] },
  ): void {
    const fence = this.#fence;
    const before = fence.positions.get(batch.partition)?.position;
    const window = new CountWindow(policy.window.size, this.#window?.slots);
    const since = Math.max(lane.since, this.#real.since, this.#forced);
    let verdict: { recorded: number; succeeded: number } | undefined;
    let last = before;
    let at = 0;
    let failures = 0;
    let opened = false;
    for (const [position, arrived, outcomes] of batch.entries) {
      const arrival = arrived === 0 ? now : Math.min(arrived, now);
      if (arrived > now) result.clipped += outcomes;
      const known = before !== undefined && !isAfter(position, before);
      if (known) result.duplicate += outcomes;
      for (let i = at; i < at + outcomes; i += 1) {
        const code = batch.results[i];
        const success = code !== '0';
        const proof = success ? undefined : batch.evidence[failures++];
        if (known) continue;
        const ends = arrival - (batch.times[2 * i] ?? 0);
        if (now - ends > this.freshForMs) result.stale += 1;
        else if (lane.state === 'open') result.blockedDropped += 1;
        else if (since > 0 && ends - (batch.times[2 * i + 1] ?? 0) <= since) result.late += 1;
        else if (
          success &&
          window.isOpen &&
          fence.by !== '' &&
          fence.by !== batch.partition &&
          (code === '2' || arrival <= fence.at)
        )
          result.late += 1;
        else {
          result.counted += 1;
          if (!success && !window.isOpen) {
            Object.assign(fence, { by: batch.partition, at: now });
            opened = true;
            this.#evidence = [];
          }
          if (proof !== undefined)
            this.#evidence = [...this.#evidence, JSON.parse(proof) as Evidence].slice(-EVIDENCE_KEPT);
          window.push(success);
          if (!success && window.isBelow(policy.successRate)) {
            verdict = { recorded: window.recorded, succeeded: window.succeeded };
            const decision = { size: window.size, ...verdict, threshold: policy.successRate, evidence: this.#evidence };
            this.#open(policy, lane, now, now, 'success-rate', { decision });
            window.clear();
          }
        }
      }
      at += outcomes;
      if (last === undefined || isAfter(position, last)) last = position;
    }
    if (result.duplicate === batch.results.length || last === undefined) return;
    Object.assign(result, verdict ?? { recorded: window.recorded, succeeded: window.succeeded });
    fence.positions.set(batch.partition, { position: last, written: now });
    const changed = opened || result.counted > 0;
    if (!window.isOpen) this.#window = undefined;
    else if (changed) this.#window = { slots: [...window.slots], expiresAt: now + windowTtlMs(policy) };
  }

  #due(policy: Policy, now: number): void {
    const { real, shadow } = { real: this.#real, shadow: this.#shadow };
    if (isDue(real, now)) this.#held(real, now);
    if (real.state === 'open' && real.ends !== -1 && real.ends <= now)
      this.#close(policy, real, now, real.ends, 'expired');
    if (isDue(real, now)) this.#held(real, now);
    if (shadow.state === 'open' && shadow.ends <= now) this.#close(policy, shadow, now, shadow.ends, 'expired');
    if (isDue(shadow, now)) this.#held(shadow, now);
  }

  #open(
    policy: Policy,
    lane: Lane,
    now: number,
    at: number,
    reason: string,
    how: { ends?: number | undefined; decision?: Decision; hand?: Hand },
  ): void {
    const relapse = lane.hold > 0;
    const from = lane.state;
    this.#epoch = Math.max(this.#epoch + 1, now);
    const trips = relapse ? lane.trips + 1 : 1;
    const ends = how.ends ?? at + blockMs(policy.block, trips);
    Object.assign(lane, { reason, trips, block: this.#epoch, state: 'open', since: at, hold: 0, ends });
    if (!relapse) lane.incident = String(this.#epoch);
    this.#clear(policy, lane);
    this.#remember(ends, now);
    if (lane.shadow) {
      if (!relapse) this.#push('observed', lane, 'closed', at, at, how);
    } else {
      this.#keyEnds = ends;
      this.#push(relapse ? 'relapsed' : 'blocked', lane, from, at, at, how);
    }
    this.#stamp(now);
  }

  #close(policy: Policy, lane: Lane, now: number, at: number, reason: string, hand?: Hand): void {
    const { state: from, since: blockedAt } = lane;
    this.#remember(lane.ends, now);
    this.#epoch = Math.max(this.#epoch + 1, now);
    Object.assign(lane, {
      reason,
      state: 'closed',
      since: at,
      ends: 0,
      hold: policy.holdMs > 0 ? at + policy.holdMs : 0,
    });
    this.#clear(policy, lane);
    if (!lane.shadow) {
      this.#keyEnds = -2;
      this.#push('recovered', lane, from, at, blockedAt, { hand });
    }
    this.#stamp(now);
  }

  #held(lane: Lane, now: number): void {
    const at = lane.hold;
    Object.assign(lane, { hold: 0, reason: 'held' });
    this.#epoch = Math.max(this.#epoch + 1, now);
    if (!lane.shadow) this.#push('held', lane, 'closed', at, 0, {});
    this.#stamp(now);
  }

  #moveEnd(now: number, ends: number, reason: string, hand: Hand): void {
    const before = this.#real.ends;
    Object.assign(this.#real, { ends, reason });
    this.#remember(ends, now);
    this.#epoch = Math.max(this.#epoch + 1, now);
    const later = ends === -1 || (before !== -1 && ends > before);
    this.#push(later ? 'extended' : 'shortened', this.#real, 'open', now, this.#real.since, { hand });
    this.#stamp(now);
  }

  #push(
    kind: TransitionKind,
    lane: Lane,
    from: State,
    at: number,
    blockedAt: number,
    how: { decision?: Decision; hand?: Hand | undefined },
  ): void {
    const { state: to, ends: until, reason, incident, trips, block } = lane;
    const hand = {
      ...(how.hand?.actor ? { actor: how.hand.actor } : {}),
      ...(how.hand?.note ? { note: how.hand.note } : {}),
    };
    const usual = {
      v: 1,
      kind,
      channel: this.channel,
      epoch: this.#epoch,
      at,
      from,
      to,
      until,
      reason,
      incident,
      trips,
      block,
      blockedAt,
    };
    this.#outbox.push({ ...usual, evidence: [], ...hand, ...how.decision });
  }

  #clear(policy: Policy, lane: Lane): void {
    if (!lane.shadow || policy.mode === 'observe') this.#window = undefined;
  }

  #remember(ends: number, now: number): void {
    this.#last = Math.max(this.#last, ends === -1 ? now : ends);
  }

  /** The life of the state, as the script sets it whenever it writes the state. */
  #stamp(now: number): void {
    if (this.#real.state !== 'closed' || this.#shadow.state !== 'closed') {
      this.#expiresAt = Number.POSITIVE_INFINITY;
      return;
    }
    const watched = Math.max(this.#real.hold, this.#shadow.hold);
    const kept = Math.max(now + 2 * this.freshForMs, this.#last + DAY_MS, this.#forced + 2 * this.freshForMs);
    this.#expiresAt = watched > 0 ? Math.max(kept, watched + DAY_MS) : kept;
  }

  #isQuiet(): boolean {
    return (
      this.#window === undefined &&
      this.#keyEnds === -2 &&
      this.#outbox.length === 0 &&
      this.#real.state === 'closed' &&
      this.#shadow.state === 'closed'
    );
  }

  #expire(now: number): void {
    if (this.#window && this.#window.expiresAt <= now) this.#window = undefined;
    for (const [partition, { written }] of this.#fence.positions) {
      if (written + 2 * this.freshForMs < now) this.#fence.positions.delete(partition);
    }
    if (this.#expiresAt > now) return;
    this.#real = newLane(false);
    this.#shadow = newLane(true);
    this.#epoch = 0;
    this.#last = 0;
    this.#forced = 0;
    this.#expiresAt = Number.POSITIVE_INFINITY;
  }
}

function newLane(shadow: boolean): Lane {
  return { shadow, state: 'closed', since: 0, ends: 0, hold: 0, incident: '', trips: 0, block: 0, reason: '' };
}

function isDue(lane: Lane, now: number): boolean {
  return lane.state === 'closed' && lane.hold > 0 && lane.hold <= now;
}
