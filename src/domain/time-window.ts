/** Counts per slot of a time window: slot number → successes and failures. */
export type SlotCounts = ReadonlyMap<number, readonly [successes: number, failures: number]>;

/** Length of one slot in whole ms. */
export function slotMs(spanMs: number, slots: number): number {
  return Math.ceil(spanMs / slots);
}

/**
 * The time window in TypeScript: the twin of `lua/lib/time-window.lua`, rule by rule. Outcomes are counted in the slot of their own end; a
 * slot is old when it lies a span before the newest end recorded, not before now.
 */
export class TimeWindow {
  /** Successes are remembered, so whatever is read again is behind the fence. */
  readonly forgetful = false;
  readonly #lengthMs: number;
  readonly #slots: number;
  readonly #minCalls: number;
  #counts: Map<number, [number, number]>;
  #newest: number;

  constructor(spanMs: number, slots: number, minCalls: number, stored?: { counts: SlotCounts; newest: number }) {
    this.#lengthMs = slotMs(spanMs, slots);
    this.#slots = slots;
    this.#minCalls = minCalls;
    this.#counts = new Map([...(stored?.counts ?? [])].map(([slot, [good, bad]]) => [slot, [good, bad]]));
    this.#newest = stored?.newest ?? 0;
    this.#forget();
  }

  get counts(): SlotCounts {
    return this.#counts;
  }

  get newest(): number {
    return this.#newest;
  }

  /** A failure stands in it. */
  get isOpen(): boolean {
    return this.recorded > this.succeeded;
  }

  get isEmpty(): boolean {
    return this.#counts.size === 0;
  }

  get recorded(): number {
    return [...this.#counts.values()].reduce((sum, [good, bad]) => sum + good + bad, 0);
  }

  get succeeded(): number {
    return [...this.#counts.values()].reduce((sum, [good]) => sum + good, 0);
  }

  get total(): number {
    return this.recorded;
  }

  /** The outcome's second has left the window already. */
  isPast(endMs: number): boolean {
    return this.#isOld(this.#slotOf(endMs));
  }

  push(success: boolean, endMs: number): void {
    if (endMs > this.#newest) {
      this.#newest = endMs;
      this.#forget();
    }
    const slot = this.#slotOf(endMs);
    const [good, bad] = this.#counts.get(slot) ?? [0, 0];
    this.#counts.set(slot, success ? [good + 1, bad] : [good, bad + 1]);
  }

  clear(): void {
    this.#counts = new Map();
    this.#newest = 0;
  }

  /** Strictly below, in integers, once there are enough calls. @param threshold hundredths of a percent */
  isBelow(threshold: number): boolean {
    const calls = this.recorded;
    return calls >= this.#minCalls && this.succeeded * 10_000 < threshold * calls;
  }

  #isOld(slot: number): boolean {
    return slot <= this.#slotOf(this.#newest) - this.#slots;
  }

  #slotOf(endMs: number): number {
    return Math.floor(endMs / this.#lengthMs);
  }

  #forget(): void {
    for (const slot of this.#counts.keys()) if (this.#isOld(slot)) this.#counts.delete(slot);
  }
}
