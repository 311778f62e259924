import { type ChannelBatch, NOTHING_RECORDED, type RecordResult } from './batch.js';
import { judge, type Memory, newMemory } from './judgement.js';
import { type Hand, PAUSED } from './lane.js';
import { Lanes } from './lanes.js';
import type { Policy } from './policy.js';
import type { State, Transition } from './transition.js';
import { storeWindow } from './window/load.js';
import type { StoredWindow } from './window/window.js';

const NOBODY: Hand = { actor: '', note: '' };

/**
 * One channel as a pure model: the same rules as `lua/record.lua`, `recover.lua` and `override.lua`, without Redis. Time is a
 * parameter (Redis milliseconds, never going back). It is what the property tests hold the scripts against, what
 * `fuseline/testing` runs, and what tells in advance what a set of rules would have done.
 */
export class ChannelModel {
  readonly channel: string;
  readonly freshForMs: number;
  readonly #lanes: Lanes;
  readonly #memory: Memory = newMemory();

  constructor(channel: string, freshForMs = 300_000) {
    this.channel = channel;
    this.freshForMs = freshForMs;
    this.#lanes = new Lanes(channel, freshForMs, () => {
      this.#memory.window = undefined;
    });
  }

  /** Judges one batch, as `record.lua` does. */
  record(policy: Policy, batch: ChannelBatch, now: number): RecordResult {
    this.#expire(now);
    const lanes = this.#lanes;
    const result = { ...NOTHING_RECORDED };
    const isHealthy = this.#memory.window === undefined && lanes.isQuiet && !/[034]/.test(batch.results);
    if (isHealthy && (policy.window.kind === 'count' || policy.window.kind === 'sequential')) return result;
    const before = lanes.outbox.length;
    lanes.due(policy, now);
    const lane = policy.mode === 'observe' ? lanes.shadow : lanes.real;
    if (lanes.real.state === 'open' || lane.state === 'open') result.blockedDropped = batch.results.length;
    else if (lanes.forced > now) result.overridden = batch.results.length;
    else judge({ policy, lanes, lane, memory: this.#memory, now, freshForMs: this.freshForMs }, batch, result);
    return { ...result, pushed: lanes.outbox.length - before, blocked: lanes.real.state !== 'closed' };
  }

  /** Takes what is due, as a sweep does. Returns when to look next: 0 never, -1 unknown (a block without end). */
  recover(policy: Policy, now: number): number {
    this.#expire(now);
    const lanes = this.#lanes;
    lanes.due(policy, now);
    // A level lasts as long as the window that gave rise to it, and the rules.
    const isCaused = policy.mode === 'on' && policy.levels !== undefined && this.#memory.window !== undefined;
    if (lanes.level !== '' && !isCaused) lanes.changeLevel(now, '');
    return this.nextDue();
  }

  /** By hand. @param forMs 0 by policy, -1 without end */
  block(policy: Policy, now: number, hand = NOBODY, forMs = 0): void {
    this.#expire(now);
    const lanes = this.#lanes;
    lanes.due(policy, now);
    Object.assign(lanes, { forced: 0, isForcing: false });
    if (lanes.real.state === 'open' && lanes.real.reason === PAUSED) {
      // What a person blocks is an incident of its own; the pause ends here.
      lanes.close(policy, lanes.real, now, now, 'manual', hand);
      lanes.due(policy, now);
    }
    const chosen = forMs === -1 ? -1 : forMs > 0 ? now + forMs : undefined;
    if (lanes.real.state === 'open') {
      const ends = chosen ?? now + lanes.blockMs(policy, lanes.real);
      lanes.moveEnd(policy, now, ends, 'manual', hand);
    } else lanes.open(policy, lanes.real, now, 'manual', { ends: chosen, hand });
    lanes.stamp(now);
  }

  /** By hand. @param forMs held open and not judged for so long; 0: judged at once, on an empty window */
  unblock(policy: Policy, now: number, hand = NOBODY, forMs = 0): void {
    this.#expire(now);
    const lanes = this.#lanes;
    lanes.due(policy, now);
    if (lanes.real.state !== 'closed') lanes.close(policy, lanes.real, now, now, 'manual', hand);
    if (forMs > 0) {
      this.#memory.window = undefined;
      lanes.force(now, now + forMs, hand);
    } else if (lanes.isForcing) lanes.endForce(now, now, 'manual', hand);
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
    const kept = this.#memory.window;
    const stored = kept && storeWindow(kept.window);
    const window = stored?.kind === 'count' ? stored.slots.join('') : '';
    const other = stored?.kind === 'count' ? undefined : stored;
    return { state, blocked: keyEnds !== -2, since, until, window, stored: other, epoch, shadow: shadow.state };
  }

  #expire(now: number): void {
    if (this.#memory.window && this.#memory.window.expiresAt <= now) this.#memory.window = undefined;
    for (const [partition, { written }] of this.#memory.fence.positions) {
      if (written + 2 * this.freshForMs < now) this.#memory.fence.positions.delete(partition);
    }
    if (this.#memory.fence.expiresAt <= now) Object.assign(this.#memory.fence, { run: 0, runSince: 0, suspected: 0 });
    this.#lanes.expire(now);
  }
}
