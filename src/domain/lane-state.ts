import { type Lane, lifeEnd, newLane, type Told, transitionOf } from './lane.js';
import type { Policy } from './policy.js';
import type { State, Transition, TransitionKind } from './transition.js';

/** What a channel's state holds, and how long: the lanes, the block key, what a person decided, and what is not yet announced. */
export class LaneState {
  readonly real = newLane(false);
  readonly shadow = newLane(true);
  /** Transitions decided and not yet announced. */
  readonly outbox: Transition[] = [];
  /** End of the block key: -2 none, -1 without end. */
  keyEnds = -2;
  /** Until then held open by hand: not judged; and whether people were told so and not yet of its end. */
  forced = 0;
  isForcing = false;
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
    const { real, shadow, keyEnds, outbox, level } = this;
    return (
      keyEnds === -2 && outbox.length === 0 && real.state === 'closed' && shadow.state === 'closed' && level === ''
    );
  }

  /** When somebody must look next: 0 never, -1 unknown (a block without end). */
  nextDue(): number {
    const lanes = [this.real, this.shadow].map((lane) => (lane.state === 'closed' ? lane.hold : lane.ends));
    const times = [...lanes, this.isForcing ? this.forced : 0].filter((at) => at !== 0);
    const known = times.filter((at) => at !== -1);
    if (known.length > 0) return Math.min(...known);
    return times.length > 0 || this.level !== '' ? -1 : 0;
  }

  /** The life of the state, as the script sets it whenever it writes the state. */
  stamp(now: number): void {
    // A level lasts as long as its window; whoever ends it comes here again.
    this.#expiresAt =
      this.level === ''
        ? lifeEnd([this.real, this.shadow], Math.max(now, this.forced) + 2 * this.#freshForMs, this.#last)
        : Number.POSITIVE_INFINITY;
  }

  expire(now: number): void {
    if (this.#expiresAt > now) return;
    Object.assign(this.real, newLane(false));
    Object.assign(this.shadow, newLane(true));
    Object.assign(this, { epoch: 0, forced: 0, isForcing: false, level: '' });
    this.#last = 0;
    this.#expiresAt = Number.POSITIVE_INFINITY;
  }

  protected push(kind: TransitionKind, lane: Lane, from: State, at: number, blockedAt: number, how: Told): void {
    const names = { v: 1, kind, channel: this.#channel, epoch: this.epoch, from, at, blockedAt };
    this.outbox.push(transitionOf(names, lane, this.keyEnds, how));
  }

  protected next(now: number): void {
    this.epoch = Math.max(this.epoch + 1, now);
  }

  /** A shadow that ends after the mode went back to `on` has no say in the window that is judged now. */
  protected clear(policy: Policy, lane: Lane): void {
    if (!lane.shadow || policy.mode === 'observe') this.#clearWindow();
    if (!lane.shadow) this.level = '';
  }

  protected remember(ends: number, now: number): void {
    this.#last = Math.max(this.#last, ends === -1 ? now : ends);
  }
}
