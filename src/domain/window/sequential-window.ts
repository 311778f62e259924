import type { SequentialTest } from './sequential-test.js';
import type { Calls, StoredWindow, WindowModel } from './window.js';

type Stored = Extract<StoredWindow, { kind: 'sequential' }>;

/** The score of a sequential test: the twin of `lua/lib/sequential.lua`. What is counted is counted since the score left 0. */
export class SequentialWindow implements WindowModel {
  readonly forgetful = true;
  readonly reason = 'sequential-test';
  readonly #test: SequentialTest;
  readonly #name: string;
  #score = 0;
  #calls = 0;
  #failures = 0;
  #slow = 0;

  constructor(test: SequentialTest, stored?: Stored) {
    this.#test = test;
    this.#name = `${test.up}:${test.down}:${test.limit}`;
    if (stored?.test !== this.#name) return;
    this.#score = stored.score;
    this.#calls = stored.calls;
    this.#failures = stored.failures;
    this.#slow = stored.slow;
  }

  get isOpen(): boolean {
    return this.#score > 0;
  }

  get isKept(): boolean {
    return this.isOpen;
  }

  get recorded(): number {
    return this.#calls;
  }

  get total(): number {
    return this.#calls;
  }

  get failures(): number {
    return this.#failures;
  }

  get slow(): number {
    return this.#slow;
  }

  isPast(): boolean {
    return false;
  }

  moveTo(): void {}

  isJudged(): boolean {
    return true;
  }

  isFailing(): boolean {
    return this.#score >= this.#test.limit;
  }

  push(result: Calls): void {
    if (result === '1' && this.#score === 0) return;
    this.#calls += 1;
    if (result === '0') this.#failures += 1;
    if (result === '3') this.#slow += 1;
    this.#score += result === '1' ? -this.#test.down : this.#test.up;
    if (this.#score <= 0) this.clear();
  }

  clear(): void {
    this.#score = 0;
    this.#calls = 0;
    this.#failures = 0;
    this.#slow = 0;
  }

  stored(): Stored {
    const [score, calls, failures, slow] = [this.#score, this.#calls, this.#failures, this.#slow];
    return { kind: 'sequential', test: this.#name, score, calls, failures, slow };
  }
}
