import type { ChannelRead } from '../channel/snapshot.js';
import type { Transition } from '../domain/transition.js';
import type { RedisClock } from './clock.js';
import { applyRead, applyTransition, isOvertaken, missedTransition, newView, type View } from './view.js';

/** Longest delay of `setTimeout`; a longer one fires at once. */
const TIMER_MOST_MS = 2 ** 31 - 1;
/** Views kept, for their epochs, of channels that are not blocked: twice `maxChannels`. */
const VIEWS_MOST = 20_000;

/**
 * All views of this process. Changes come from the feed and from reads of Redis; a timer ends blocks at their time, so that asking
 * reads no clock and a Redis that is away keeps nobody out for longer than was decided.
 */
export class Views {
  readonly #clock: RedisClock;
  readonly #tell: (transition: Transition) => void;
  readonly #views = new Map<string, View>();
  #timer: NodeJS.Timeout | undefined;
  #timerAt = Number.POSITIVE_INFINITY;
  /** Redis ms of the first snapshot, once it is complete. */
  #bornAt: number | undefined;

  constructor(clock: RedisClock, tell: (transition: Transition) => void) {
    this.#clock = clock;
    this.#tell = tell;
  }

  get(channel: string): View | undefined {
    return this.#views.get(channel);
  }

  get size(): number {
    return this.#views.size;
  }

  blockedCount(): number {
    let count = 0;
    for (const view of this.#views.values()) if (view.blocked) count++;
    return count;
  }

  /** Channels that are not plainly closed as far as we know: a snapshot must read them, also when the agenda no longer names them. */
  *unsettled(): Iterable<string> {
    for (const view of this.#views.values())
      if (view.blocked || view.state !== 'closed' || view.level !== '') yield view.channel;
  }

  /** Marks the first snapshot as complete: from now on, what reads show is news. */
  begin(redisMs: number): void {
    this.#bornAt ??= redisMs;
  }

  /** A transition of the feed. True when it was news: only then it is applied and told. */
  take(transition: Transition): boolean {
    const view = this.#views.get(transition.channel) ?? newView(transition.channel);
    if (!applyTransition(view, transition, this.#clock.now(), performance.now())) return false;
    this.#keep(view);
    this.#tell(transition);
    return true;
  }

  /**
   * A read of Redis that began at `begunAt` (local ms). A newer epoch than ours is told from what the state shows; a `check` leaves
   * that to the feed, which is about to bring it with all its facts.
   */
  settle(read: ChannelRead, begunAt: number, how: 'snapshot' | 'check'): void {
    const held = this.#views.get(read.channel);
    if (held === undefined && read.state === undefined && read.blockKey === undefined) return;
    if (held && isOvertaken(held, read, begunAt)) return;
    const { state } = read;
    const newer = state !== undefined && state.epoch > (held?.epoch ?? 0);
    if (newer && how === 'check' && held && held.epoch > 0) return;
    const missed = newer ? missedTransition(held, { ...read, state }, this.#bornAt) : undefined;
    const view = held ?? newView(read.channel);
    applyRead(view, read, performance.now());
    this.#keep(view);
    if (missed) this.#tell(missed);
  }

  /** Ends every block whose time has come and sets the timer for the next one. Called again when the clock was corrected. */
  endDue(): void {
    this.#timerAt = Number.POSITIVE_INFINITY;
    clearTimeout(this.#timer);
    const now = this.#clock.now();
    let next = Number.POSITIVE_INFINITY;
    for (const view of this.#views.values()) {
      if (!view.blocked || view.endsAt === -1) continue;
      if (view.endsAt <= now) view.blocked = false;
      else next = Math.min(next, view.endsAt);
    }
    this.#wakeAt(next);
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #keep(view: View): void {
    // Inserted anew, so that the map's order is the order of the last change, and the oldest epoch is forgotten first.
    this.#views.delete(view.channel);
    this.#views.set(view.channel, view);
    if (view.blocked && view.endsAt !== -1) this.#wakeAt(view.endsAt);
    if (this.#views.size > VIEWS_MOST) this.#forgetOldest();
  }

  #forgetOldest(): void {
    for (const view of this.#views.values()) {
      if (view.blocked) continue;
      this.#views.delete(view.channel);
      return;
    }
  }

  /** One timer for all: the soonest end. */
  #wakeAt(endsAt: number): void {
    if (endsAt >= this.#timerAt) return;
    this.#timerAt = endsAt;
    clearTimeout(this.#timer);
    const delayMs = Math.ceil(Math.max(0, endsAt - this.#clock.now()));
    this.#timer = setTimeout(() => this.endDue(), Math.min(delayMs, TIMER_MOST_MS)).unref();
  }
}
