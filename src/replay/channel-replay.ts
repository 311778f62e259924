import type { ChannelBatch, RecordResult } from '../domain/batch.js';
import { ChannelModel } from '../domain/channel-model.js';
import { type Policy, windowTtlMs } from '../domain/policy.js';
import type { Transition } from '../domain/transition.js';

/** Outcomes of one channel. `…WhileBlocked` would not have reached anybody: the channel would have been hidden. */
export type Tally = {
  calls: number;
  failures: number;
  callsWhileBlocked: number;
  failuresWhileBlocked: number;
};

/** Hears of every transition, and of every outcome that came during a block. */
export type Watch = {
  transition(transition: Transition): void;
  blocked(channel: string, calls: number, failures: number): void;
};

/**
 * One channel through the past: the model, and the clock by which it lives. Its clock is that of its own outcomes, because channels have
 * nothing to do with each other: a source may hold them in any order among themselves.
 */
export class ChannelReplay {
  readonly tally: Tally = { calls: 0, failures: 0, callsWhileBlocked: 0, failuresWhileBlocked: 0 };
  readonly policy: Policy;
  readonly #model: ChannelModel;
  readonly #watch: Watch;
  #now = 0;
  #dueAt = 0;
  /** It once had something to tell. */
  #told = false;

  constructor(channel: string, policy: Policy, freshForMs: number, watch: Watch) {
    this.policy = policy;
    this.#model = new ChannelModel(channel, freshForMs);
    this.#watch = watch;
  }

  /** Judges outcomes that arrived together, after everything that was due before them. */
  record(batch: ChannelBatch, arrivalMs: number): RecordResult {
    this.advance(arrivalMs);
    const result = this.#model.record(this.policy, batch, this.#now);
    const calls = batch.results.length;
    const failures = failuresIn(batch.results, 0);
    this.tally.calls += calls;
    this.tally.failures += failures;
    if (result.pushed > 0 || this.policy.mode !== 'on') this.#tell();
    const dropped = result.blockedDropped;
    if (dropped > 0) {
      // A block begins within a batch once at most, and what comes after it is dropped: the last ones.
      const lost = dropped === calls ? failures : failuresIn(batch.results, calls - dropped);
      this.tally.callsWhileBlocked += dropped;
      this.tally.failuresWhileBlocked += lost;
      this.#watch.blocked(this.#model.channel, dropped, lost);
    }
    return result;
  }

  /** Moves the clock, and takes each end of a block or a hold at its own time. */
  advance(toMs: number): void {
    while (this.#dueAt > 0 && this.#dueAt <= toMs) {
      this.#now = Math.max(this.#now, this.#dueAt);
      const before = this.#dueAt;
      this.#model.recover(this.policy, this.#now);
      this.#tell();
      if (this.#dueAt === before) break;
    }
    this.#now = Math.max(this.#now, toMs);
  }

  /** Nothing of it is left: whatever comes next meets it as if it were new. */
  isForgettable(nowMs: number): boolean {
    const idleMs = nowMs - this.#now;
    return !this.#told && this.#dueAt === 0 && idleMs > Math.max(windowTtlMs(this.policy), 3 * this.#model.freshForMs);
  }

  #tell(): void {
    for (const transition of this.#model.takeTransitions()) {
      this.#told = true;
      this.#watch.transition(transition);
    }
    this.#dueAt = this.#model.nextDue();
  }
}

/** A call that the third party refused for being one too many did not do what it was made for either. */
function failuresIn(results: string, from: number): number {
  let failures = 0;
  for (let at = from; at < results.length; at += 1) if (results[at] === '0' || results[at] === '4') failures += 1;
  return failures;
}
