import type { Calls, StoredWindow, WindowModel } from './window.js';

type Stored = Extract<StoredWindow, { kind: 'log' }>;
type Call = readonly [endMs: number, result: Calls];

/**
 * Every call of a span by its own end: the twin of `lua/lib/call-log.lua`. A call is old when it ended a span before the newest end
 * recorded, not before now.
 */
export class CallLog implements WindowModel {
  /** Successes are remembered, so whatever is read again is behind the fence. */
  readonly forgetful = false;
  readonly reason = 'success-rate';
  /** Calls that had to go because the log was full. */
  crowded = 0;
  readonly #spanMs: number;
  readonly #most: number;
  readonly #minCalls: number;
  /** By end; of the same millisecond in the order in which they were recorded. */
  #calls: Call[];
  #newest: number;
  readonly #counts = { '0': 0, '1': 0, '3': 0 };

  constructor(policy: { spanMs: number; maxEntries: number; minCalls: number }, stored?: Stored) {
    this.#spanMs = policy.spanMs;
    this.#most = policy.maxEntries;
    this.#minCalls = policy.minCalls;
    this.#calls = [...(stored?.calls ?? [])];
    this.#newest = stored?.newest ?? 0;
    for (const [, result] of this.#calls) this.#counts[result] += 1;
    this.#forget();
    while (this.#calls.length > this.#most) this.#dropOldest();
  }

  get newest(): number {
    return this.#newest;
  }

  get isOpen(): boolean {
    return this.#counts['0'] + this.#counts['3'] > 0;
  }

  get isKept(): boolean {
    return this.#newest > 0;
  }

  get recorded(): number {
    return this.#calls.length;
  }

  get total(): number {
    return this.#calls.length;
  }

  get failures(): number {
    return this.#counts['0'];
  }

  get slow(): number {
    return this.#counts['3'];
  }

  isPast(endMs: number): boolean {
    return endMs <= this.#newest - this.#spanMs;
  }

  isJudged(): boolean {
    return this.recorded >= this.#minCalls;
  }

  /** Strictly below, in integers. */
  isFailing(bad: number, threshold: number): boolean {
    return (this.recorded - bad) * 10_000 < threshold * this.recorded;
  }

  moveTo(endMs: number): void {
    if (endMs <= this.#newest) return;
    this.#newest = endMs;
    this.#forget();
  }

  push(result: Calls, endMs: number): void {
    this.moveTo(endMs);
    let at = this.#calls.length;
    while (at > 0 && this.#calls[at - 1]![0] > endMs) at -= 1;
    this.#calls.splice(at, 0, [endMs, result]);
    this.#counts[result] += 1;
    if (this.#calls.length > this.#most) {
      this.#dropOldest();
      this.crowded += 1;
    }
  }

  clear(): void {
    this.#calls = [];
    this.#newest = 0;
    Object.assign(this.#counts, { '0': 0, '1': 0, '3': 0 });
  }

  stored(): Stored {
    return { kind: 'log', calls: [...this.#calls], newest: this.#newest };
  }

  #forget(): void {
    while (this.#calls.length > 0 && this.isPast(this.#calls[0]![0])) this.#dropOldest();
  }

  #dropOldest(): void {
    const [, result] = this.#calls.shift()!;
    this.#counts[result] -= 1;
  }
}
