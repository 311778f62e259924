import { type ChannelBatch, isAfter, NOTHING_RECORDED, type RecordResult } from './batch.js';
import { CountWindow } from './count-window.js';
import { type Hand, type Lane, Lanes } from './lanes.js';
import { blockMs, type Policy, windowTtlMs } from './policy.js';
import { type SlotCounts, slotMs, TimeWindow } from './time-window.js';
import type { Evidence, State, Transition } from './transition.js';

const EVIDENCE_KEPT = 20;
const NOBODY: Hand = { actor: '', note: '' };

type StoredWindow = { expiresAt: number } & (
  | { kind: 'count'; slots: readonly boolean[] }
  | { kind: 'time'; lengthMs: number; counts: SlotCounts; newest: number }
);
type Fence = { positions: Map<string, { position: string; written: number }>; by: string; at: number };
type Tally = { -readonly [K in keyof RecordResult]: RecordResult[K] };

/**
 * One channel as a pure model: the same rules as `lua/record.lua`, `recover.lua` and `override.lua`, without Redis. Time is a
 * parameter (Redis milliseconds, never going back). It is what the property tests hold the scripts against, what
 * `fuseline/testing` runs, and what tells in advance what a set of rules would have done.
 */
export class ChannelModel {
  readonly channel: string;
  readonly freshForMs: number;
  readonly #lanes: Lanes;
  #window: StoredWindow | undefined;
  #evidence: Evidence[] = [];
  #fence: Fence = { positions: new Map(), by: '', at: 0 };

  constructor(channel: string, freshForMs = 300_000) {
    this.channel = channel;
    this.freshForMs = freshForMs;
    this.#lanes = new Lanes(channel, freshForMs, () => {
      this.#window = undefined;
    });
  }

  /** Judges one batch, as `record.lua` does. */
  record(policy: Policy, batch: ChannelBatch, now: number): RecordResult {
    this.#expire(now);
    const lanes = this.#lanes;
    const result = { ...NOTHING_RECORDED };
    const isHealthy = this.#window === undefined && lanes.isQuiet && !batch.results.includes('0');
    if (isHealthy && policy.window.kind === 'count') return result;
    const before = lanes.outbox.length;
    lanes.due(policy, now);
    const lane = policy.mode === 'observe' ? lanes.shadow : lanes.real;
    if (lanes.real.state === 'open' || lane.state === 'open') result.blockedDropped = batch.results.length;
    else if (lanes.forced > now) result.overridden = batch.results.length;
    else this.#judge(policy, batch, now, lane, result);
    return { ...result, pushed: lanes.outbox.length - before, blocked: lanes.real.state === 'open' };
  }

  /** Takes what is due, as a sweep does. Returns when to look next: 0 never, -1 unknown (a block without end). */
  recover(policy: Policy, now: number): number {
    this.#expire(now);
    this.#lanes.due(policy, now);
    return this.nextDue();
  }

  /** By hand. @param forMs 0 by policy, -1 without end */
  block(policy: Policy, now: number, hand = NOBODY, forMs = 0): void {
    this.#expire(now);
    const lanes = this.#lanes;
    lanes.due(policy, now);
    lanes.forced = 0;
    const chosen = forMs === -1 ? -1 : forMs > 0 ? now + forMs : undefined;
    if (lanes.real.state === 'open') {
      lanes.moveEnd(now, chosen ?? now + blockMs(policy.block, lanes.real.trips), 'manual', hand);
    } else lanes.open(policy, lanes.real, now, 'manual', { ends: chosen, hand });
    lanes.stamp(now);
  }

  /** By hand. @param forMs held open and not judged for so long; 0: judged at once, on an empty window */
  unblock(policy: Policy, now: number, hand = NOBODY, forMs = 0): void {
    this.#expire(now);
    const lanes = this.#lanes;
    lanes.due(policy, now);
    if (forMs > 0) {
      lanes.forced = now + forMs;
      this.#window = undefined;
    }
    if (lanes.real.state === 'open') lanes.close(policy, lanes.real, now, now, 'manual', hand);
    if (forMs > 0) lanes.stamp(now);
  }

  takeTransitions(): Transition[] {
    return this.#lanes.outbox.splice(0);
  }

  nextDue(): number {
    return this.#lanes.nextDue();
  }

  /** What programs and people can see at `now`, without changing anything. */
  view(now: number): {
    state: State;
    blocked: boolean;
    since: number;
    until: number;
    /** Slots of a count window, oldest first. */
    window: readonly boolean[];
    /** Counts of a time window. */
    slots: SlotCounts;
    epoch: number;
    shadow: State;
  } {
    this.#expire(now);
    const { real, shadow, keyEnds, epoch } = this.#lanes;
    const { state, since, ends: until } = real;
    const stored = this.#window;
    const window = stored?.kind === 'count' ? stored.slots : [];
    const slots = stored?.kind === 'time' ? stored.counts : new Map();
    return { state, blocked: keyEnds !== -2, since, until, window, slots, epoch, shadow: shadow.state };
  }

  #judge(policy: Policy, batch: ChannelBatch, now: number, lane: Lane, result: Tally): void {
    const fence = this.#fence;
    const before = fence.positions.get(batch.partition)?.position;
    const window = this.#loadWindow(policy);
    const since = Math.max(lane.since, this.#lanes.real.since, this.#lanes.forced);
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
        else if (window.isPast(ends)) result.late += 1;
        else if (
          window.forgetful &&
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
          window.push(success, ends);
          if (!success && window.isBelow(policy.successRate)) {
            verdict = { recorded: window.recorded, succeeded: window.succeeded };
            const decision = {
              size: window.total,
              ...verdict,
              threshold: policy.successRate,
              evidence: this.#evidence,
            };
            this.#lanes.open(policy, lane, now, 'success-rate', { decision });
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
    this.#saveWindow(policy, window, opened || result.counted > 0 ? now : undefined);
  }

  /** A window of another kind, or with slots of another length, says nothing to this policy. */
  #loadWindow({ window }: Policy): CountWindow | TimeWindow {
    const stored = this.#window;
    if (window.kind === 'count') return new CountWindow(window.size, stored?.kind === 'count' ? stored.slots : []);
    const { spanMs, slots, minCalls } = window;
    const fits = stored?.kind === 'time' && stored.lengthMs === slotMs(spanMs, slots);
    return new TimeWindow(spanMs, slots, minCalls, fits ? stored : undefined);
  }

  #saveWindow(policy: Policy, window: CountWindow | TimeWindow, changedAt: number | undefined): void {
    const expiresAt = changedAt === undefined ? (this.#window?.expiresAt ?? 0) : changedAt + windowTtlMs(policy);
    if (window instanceof CountWindow) {
      if (!window.isOpen) this.#window = undefined;
      else if (changedAt !== undefined) this.#window = { kind: 'count', slots: [...window.slots], expiresAt };
    } else if (policy.window.kind === 'time' && window.newest > 0) {
      const lengthMs = slotMs(policy.window.spanMs, policy.window.slots);
      this.#window = { kind: 'time', lengthMs, counts: window.counts, newest: window.newest, expiresAt };
    } else this.#window = undefined;
  }

  #expire(now: number): void {
    if (this.#window && this.#window.expiresAt <= now) this.#window = undefined;
    for (const [partition, { written }] of this.#fence.positions) {
      if (written + 2 * this.freshForMs < now) this.#fence.positions.delete(partition);
    }
    this.#lanes.expire(now);
  }
}
