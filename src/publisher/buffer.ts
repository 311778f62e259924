import type { QueuedOutcome } from '../transport/port.js';

/**
 * Outcomes that wait to be sent, oldest first, within two bounds. The oldest go first, because the newest tell most about a channel.
 */
export class OutcomeBuffer {
  readonly #most: number;
  readonly #mostBytes: number;
  readonly #onOverflow: (dropped: QueuedOutcome) => void;
  #items: QueuedOutcome[] = [];
  #head = 0;
  #bytes = 0;

  constructor(most: number, mostBytes: number, onOverflow: (dropped: QueuedOutcome) => void) {
    this.#most = most;
    this.#mostBytes = mostBytes;
    this.#onOverflow = onOverflow;
  }

  get size(): number {
    return this.#items.length - this.#head;
  }

  push(item: QueuedOutcome, takenOut = NOTHING): void {
    this.#items.push(item);
    this.#bytes += item.bytes;
    this.trim(takenOut);
  }

  /** Removes up to `count` of the oldest. */
  take(count: number): QueuedOutcome[] {
    const taken = this.#items.slice(this.#head, this.#head + count);
    this.#head += taken.length;
    for (const item of taken) this.#bytes -= item.bytes;
    // Shifting an array of 100,000 for each outcome would be slow; so the used-up part goes when it is the larger one.
    if (this.#head > 1_024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return taken;
  }

  /** Puts back what was taken and could not be sent, before everything else. */
  putBack(items: readonly QueuedOutcome[]): void {
    this.#items = [...items, ...this.#items.slice(this.#head)];
    this.#head = 0;
    for (const item of items) this.#bytes += item.bytes;
    this.trim(NOTHING);
  }

  /** Drops the oldest until everything, with what is taken out to be sent, is within the bounds. */
  trim(takenOut: { count: number; bytes: number }): void {
    while (
      this.size > 0 &&
      (this.size + takenOut.count > this.#most || this.#bytes + takenOut.bytes > this.#mostBytes)
    ) {
      for (const dropped of this.take(1)) this.#onOverflow(dropped);
    }
  }
}

const NOTHING = { count: 0, bytes: 0 };
