import type { Calls, StoredWindow, WindowModel } from './window.js';

type Stored = Extract<StoredWindow, { kind: 'time' }>;
type Counts = [successes: number, failures: number, slow: number];

/** Length of one slot in whole ms. */
export function slotMs(spanMs: number, slots: number): number {
  return Math.ceil(spanMs / slots);
}

/**
 * The time window in TypeScript: the twin of `lua/lib/time-window.lua`, rule by rule. Outcomes are counted in the slot of their own end; a
 * slot is old when it lies a span before the newest end recorded, not before now.
 */
export class TimeWindow implements WindowModel {
  /** Successes are remembered, so whatever is read again is behind the fence. */
  readonly forgetful = false;
  readonly reason = 'success-rate';
  readonly #lengthMs: number;
  readonly #slots: number;
  readonly #minCalls: number;
  #counts: Map<number, Counts>;
  #sum: Counts = [0, 0, 0];
  #newest: number;

  constructor(spanMs: number, slots: number, minCalls: number, stored?: Pick<Stored, 'counts' | 'newest'>) {
    this.#lengthMs = slotMs(spanMs, slots);
    this.#slots = slots;
    this.#minCalls = minCalls;
    this.#counts = new Map([...(stored?.counts ?? [])].map(([slot, counts]) => [slot, [...counts]]));
    for (const counts of this.#counts.values()) this.#add(counts, 1);
    this.#newest = stored?.newest ?? 0;
    this.#forget();
  }

  get newest(): number {
    return this.#newest;
  }

  /** A failure or a slow call stands in it. */
  get isOpen(): boolean {
    return this.failures + this.slow > 0;
  }

  get isKept(): boolean {
    return this.#newest > 0;
  }

  get recorded(): number {
    return this.#sum[0] + this.#sum[1] + this.#sum[2];
  }

  get failures(): number {
    return this.#sum[1];
  }

  get slow(): number {
    return this.#sum[2];
  }

  get total(): number {
    return this.recorded;
  }

  /** The outcome's second has left the window already. */
  isPast(endMs: number): boolean {
    return this.#isOld(this.#slotOf(endMs));
  }

  isJudged(): boolean {
    return this.recorded >= this.#minCalls;
  }

  moveTo(endMs: number): void {
    if (endMs <= this.#newest) return;
    this.#newest = endMs;
    this.#forget();
  }

  push(result: Calls, endMs: number): void {
    this.moveTo(endMs);
    const slot = this.#slotOf(endMs);
    const counts = this.#counts.get(slot) ?? [0, 0, 0];
    const at = result === '1' ? 0 : result === '0' ? 1 : 2;
    counts[at] += 1;
    this.#sum[at] += 1;
    this.#counts.set(slot, counts);
  }

  clear(): void {
    this.#counts = new Map();
    this.#sum = [0, 0, 0];
    this.#newest = 0;
  }

  /** Strictly below, in integers. @param threshold hundredths of a percent */
  isFailing(bad: number, threshold: number): boolean {
    return (this.recorded - bad) * 10_000 < threshold * this.recorded;
  }

  stored(): Stored {
    return {
      kind: 'time',
      lengthMs: this.#lengthMs,
      counts: new Map([...this.#counts].map(([slot, counts]) => [slot, [...counts] as const])),
      newest: this.#newest,
    };
  }

  #isOld(slot: number): boolean {
    return slot <= this.#slotOf(this.#newest) - this.#slots;
  }

  #slotOf(endMs: number): number {
    return Math.floor(endMs / this.#lengthMs);
  }

  #add(counts: Readonly<Counts>, by: number): void {
    for (const i of [0, 1, 2] as const) this.#sum[i] += by * counts[i];
  }

  #forget(): void {
    for (const [slot, counts] of this.#counts) {
      if (!this.#isOld(slot)) continue;
      this.#add(counts, -1);
      this.#counts.delete(slot);
    }
  }
}
