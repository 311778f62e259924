import { type ChannelBatch, isAfter, NOTHING_RECORDED, type RecordResult } from './batch.js';
import { type Hand, type Lane, Lanes, PAUSED } from './lanes.js';
import { blockMs, type Policy, windowTtlMs } from './policy.js';
import type { Evidence, State, Transition } from './transition.js';
import { badIn, sourcesOf, whyBlocked } from './verdict.js';
import { CallLog } from './window/call-log.js';
import { loadWindow, storeWindow } from './window/load.js';
import type { Calls, StoredWindow, WindowModel } from './window/window.js';

const EVIDENCE_KEPT = 20;
const NOBODY: Hand = { actor: '', note: '' };

/** `run`: failures in a row since `runSince`; `suspected`: when people were told that too few sources fail. */
type Fence = {
  positions: Map<string, { position: string; written: number }>;
  by: string;
  at: number;
  run: number;
  runSince: number;
  suspected: number;
  expiresAt: number;
};
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
  #window: (StoredWindow & { readonly expiresAt: number }) | undefined;
  #evidence: Evidence[] = [];
  #fence: Fence = { positions: new Map(), by: '', at: 0, run: 0, runSince: 0, suspected: 0, expiresAt: 0 };

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
    const isHealthy = this.#window === undefined && lanes.isQuiet && !/[034]/.test(batch.results);
    if (isHealthy && (policy.window.kind === 'count' || policy.window.kind === 'sequential')) return result;
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
    if (lanes.real.state === 'open' && lanes.real.reason === PAUSED) {
      // What a person blocks is an incident of its own; the pause ends here.
      lanes.close(policy, lanes.real, now, now, 'manual', hand);
      lanes.due(policy, now);
    }
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
    /** A count window: one character a call, oldest first, as in `channel_health:{C}`. */
    window: string;
    /** What a window of another kind holds. */
    stored: StoredWindow | undefined;
    epoch: number;
    shadow: State;
  } {
    this.#expire(now);
    const { real, shadow, keyEnds, epoch } = this.#lanes;
    const { state, since, ends: until } = real;
    const stored = this.#window;
    const window = stored?.kind === 'count' ? stored.slots.join('') : '';
    const other = stored === undefined || stored.kind === 'count' ? undefined : withoutExpiry(stored);
    return { state, blocked: keyEnds !== -2, since, until, window, stored: other, epoch, shadow: shadow.state };
  }

  #judge(policy: Policy, batch: ChannelBatch, now: number, lane: Lane, result: Tally): void {
    const fence = this.#fence;
    const before = fence.positions.get(batch.partition)?.position;
    const window = loadWindow(policy, this.#window);
    const since = Math.max(lane.since, this.#lanes.real.since, this.#lanes.forced);
    if (fence.runSince !== since || (window.forgetful && !window.isOpen)) fence.run = 0;
    fence.runSince = since;
    let verdict: { recorded: number; succeeded: number } | undefined;
    let last = before;
    let at = 0;
    let proofs = 0;
    let isChanged = false;

    /** One outcome that counts. */
    const take = (code: string, ends: number, proof: Evidence | undefined): void => {
      result.counted += 1;
      if (code === '4') {
        const { minMs = 0, maxMs = 0 } = policy.rateLimit ?? {};
        const over = ends + Math.max(minMs, Math.min(Math.ceil(proof?.retryAfterMs ?? 0), maxMs));
        if (lane.shadow || over <= now) return;
        this.#lanes.pause(policy, now, over, proof === undefined ? [] : [proof]);
        window.clear();
        return;
      }
      isChanged = true;
      const call: Calls = code === '0' || code === '3' ? code : '1';
      if (call !== '1') {
        if (!window.isOpen) {
          Object.assign(fence, { by: batch.partition, at: now });
          this.#evidence = [];
        }
        if (proof !== undefined) this.#evidence = [...this.#evidence, proof].slice(-EVIDENCE_KEPT);
      }
      window.push(call, ends);
      const failed = call === '0' || (call === '3' && policy.slow !== undefined && policy.slow.rate === undefined);
      fence.run = failed ? fence.run + 1 : 0;
      const reason = call === '1' ? undefined : whyBlocked(policy, window, fence.run);
      if (reason !== undefined && this.#trip(policy, lane, now, reason, window)) {
        verdict = { recorded: window.recorded, succeeded: window.recorded - badIn(policy, window) };
        window.clear();
      }
    };

    for (const [position, arrived, outcomes] of batch.entries) {
      const arrival = arrived === 0 ? now : Math.min(arrived, now);
      if (arrived > now) result.clipped += outcomes;
      const known = before !== undefined && !isAfter(position, before);
      if (known) result.duplicate += outcomes;
      for (let i = at; i < at + outcomes; i += 1) {
        const code = batch.results[i]!;
        const success = code === '1' || code === '2';
        const proof = success ? undefined : batch.evidence[proofs++];
        if (known) continue;
        const ends = Math.floor(arrival - (batch.times[2 * i] ?? 0));
        if (now - ends > this.freshForMs) result.stale += 1;
        else if (lane.state === 'open') result.blockedDropped += 1;
        else if (since > 0 && ends - (batch.times[2 * i + 1] ?? 0) <= since) result.late += 1;
        else if (code !== '4' && window.isPast(ends)) result.late += 1;
        else if (
          window.forgetful &&
          success &&
          window.isOpen &&
          fence.by !== '' &&
          fence.by !== batch.partition &&
          (code === '2' || arrival <= fence.at)
        )
          result.late += 1;
        else take(code, ends, proof === undefined ? undefined : (JSON.parse(proof) as Evidence));
      }
      at += outcomes;
      if (last === undefined || isAfter(position, last)) last = position;
    }
    if (result.duplicate === batch.results.length || last === undefined) return;
    const now_ = { recorded: window.recorded, succeeded: window.recorded - badIn(policy, window) };
    Object.assign(result, verdict ?? now_, { crowded: window instanceof CallLog ? window.crowded : 0 });
    fence.positions.set(batch.partition, { position: last, written: now });
    fence.expiresAt = now + Math.max(2 * this.freshForMs, windowTtlMs(policy));
    this.#saveWindow(policy, window, isChanged ? now : undefined);
  }

  /** An automatic block, unless too few sources fail. True: it was. */
  #trip(policy: Policy, lane: Lane, now: number, reason: string, window: WindowModel): boolean {
    const succeeded = window.recorded - badIn(policy, window);
    const decision = {
      ...{ size: window.total, recorded: window.recorded, succeeded },
      ...(reason === 'success-rate' ? { threshold: policy.successRate } : {}),
      ...(policy.slow === undefined ? {} : { slow: window.slow }),
      evidence: this.#evidence,
    };
    if (policy.minSources !== undefined && sourcesOf(this.#evidence) < policy.minSources) {
      const isTold = now - this.#fence.suspected < windowTtlMs(policy);
      if (lane.shadow || isTold) return false;
      this.#fence.suspected = now;
      this.#lanes.suspect(now, reason, decision);
      return false;
    }
    this.#lanes.open(policy, lane, now, reason, { decision });
    return true;
  }

  #saveWindow(policy: Policy, window: WindowModel, changedAt: number | undefined): void {
    const stored = storeWindow(window);
    const expiresAt = changedAt === undefined ? (this.#window?.expiresAt ?? 0) : changedAt + windowTtlMs(policy);
    if (stored === undefined || changedAt !== undefined) this.#window = stored && { ...stored, expiresAt };
  }

  #expire(now: number): void {
    if (this.#window && this.#window.expiresAt <= now) this.#window = undefined;
    for (const [partition, { written }] of this.#fence.positions) {
      if (written + 2 * this.freshForMs < now) this.#fence.positions.delete(partition);
    }
    if (this.#fence.expiresAt <= now) Object.assign(this.#fence, { run: 0, runSince: 0, suspected: 0 });
    this.#lanes.expire(now);
  }
}

function withoutExpiry({ expiresAt: _, ...stored }: StoredWindow & { expiresAt: number }): StoredWindow {
  return stored as StoredWindow;
}
