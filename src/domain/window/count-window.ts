import type { Calls, WindowModel } from './window.js';

/**
 * The count window in TypeScript: the twin of `lua/lib/count-window.lua`, rule by rule. The last N outcomes since the first failure;
 * slots never recorded count as successes, so the rate is (N - failures) / N.
 */
export class CountWindow implements WindowModel {
  readonly forgetful = true;
  readonly reason = 'success-rate';
  readonly size: number;
  #slots: Calls[];
  #failures: number;
  #slow: number;

  /** @param stored what was recorded before, oldest first; only the newest `size` are kept, so a smaller N takes hold at once */
  constructor(size: number, stored: readonly Calls[] = []) {
    this.size = size;
    this.#slots = stored.slice(-size);
    this.#failures = this.#slots.filter((each) => each === '0').length;
    this.#slow = this.#slots.filter((each) => each === '3').length;
  }

  get isOpen(): boolean {
    return this.#slots.length > 0;
  }

  get isKept(): boolean {
    return this.isOpen;
  }

  get total(): number {
    return this.size;
  }

  get recorded(): number {
    return this.#slots.length;
  }

  get failures(): number {
    return this.#failures;
  }

  get slow(): number {
    return this.#slow;
  }

  get slots(): readonly Calls[] {
    return this.#slots;
  }

  isPast(): boolean {
    return false;
  }

  moveTo(): void {}

  isJudged(): boolean {
    return true;
  }

  /** A success without a window is the healthy case: nothing to remember. A full window of successes is healthy again. */
  push(result: Calls): void {
    if (result === '1' && !this.isOpen) return;
    this.#slots.push(result);
    this.#tally(result, 1);
    if (this.#slots.length > this.size) this.#tally(this.#slots.shift()!, -1);
    if (this.#slots.length === this.size && this.#failures + this.#slow === 0) this.clear();
  }

  clear(): void {
    this.#slots = [];
    this.#failures = 0;
    this.#slow = 0;
  }

  /** Strictly below, in integers. @param threshold hundredths of a percent */
  isFailing(bad: number, threshold: number): boolean {
    return (this.size - bad) * 10_000 < threshold * this.size;
  }

  #tally(result: Calls, by: number): void {
    if (result === '0') this.#failures += by;
    else if (result === '3') this.#slow += by;
  }
}
