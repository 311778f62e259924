/**
 * The count window in TypeScript: the twin of `lua/lib/count-window.lua`, rule by rule. The last N outcomes since the first failure;
 * slots never recorded count as successes, so the rate is (N - failures) / N.
 */
export class CountWindow {
  /** A success without a window leaves nothing behind, not even in the fence; so it may be read again from another partition. */
  readonly forgetful = true;
  readonly size: number;
  #slots: boolean[];
  #failures: number;

  /** @param stored what was recorded before, oldest first; only the newest `size` are kept, so a smaller N takes hold at once */
  constructor(size: number, stored: readonly boolean[] = []) {
    this.size = size;
    this.#slots = stored.slice(-size);
    this.#failures = this.#slots.filter((success) => !success).length;
  }

  get isOpen(): boolean {
    return this.#slots.length > 0;
  }

  get total(): number {
    return this.size;
  }

  isPast(): boolean {
    return false;
  }

  get recorded(): number {
    return this.#slots.length;
  }

  get succeeded(): number {
    return this.#slots.length - this.#failures;
  }

  get slots(): readonly boolean[] {
    return this.#slots;
  }

  /** A success without a window is the healthy case: nothing to remember. A full window of successes is healthy again. */
  push(success: boolean): void {
    if (success && !this.isOpen) return;
    this.#slots.push(success);
    if (!success) this.#failures += 1;
    if (this.#slots.length > this.size && this.#slots.shift() === false) this.#failures -= 1;
    if (this.#failures === 0 && this.#slots.length === this.size) this.clear();
  }

  clear(): void {
    this.#slots = [];
    this.#failures = 0;
  }

  /** Strictly below, in integers. @param threshold hundredths of a percent */
  isBelow(threshold: number): boolean {
    return (this.size - this.#failures) * 10_000 < threshold * this.size;
  }
}
