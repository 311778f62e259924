/**
 * Counts the channels of one worker over a sliding ten minutes, in two halves. Past the limit a new name is refused: an order id sent as
 * channel by mistake must not flood Redis, metrics and people.
 */
export class ChannelLimit {
  readonly #most: number;
  readonly #halfMs: number;
  readonly #onFirstRefusal: (channel: string) => void;
  #current = new Set<string>();
  #previous = new Set<string>();
  readonly #clock: () => number;
  #turnedAt: number;
  #refusing = false;

  /** @param clock ms that never go back; a replay has its own */
  constructor(
    most: number,
    onFirstRefusal: (channel: string) => void,
    overMs = 600_000,
    clock: () => number = () => performance.now(),
  ) {
    this.#most = most;
    this.#halfMs = overMs / 2;
    this.#onFirstRefusal = onFirstRefusal;
    this.#clock = clock;
    this.#turnedAt = clock();
  }

  admits(channel: string): boolean {
    if (this.#current.has(channel)) return true;
    this.#turn();
    if (this.#previous.has(channel) || this.#current.size + this.#previous.size < this.#most) {
      this.#previous.delete(channel);
      this.#current.add(channel);
      return true;
    }
    if (!this.#refusing) this.#onFirstRefusal(channel);
    this.#refusing = true;
    return false;
  }

  #turn(): void {
    const now = this.#clock();
    if (now - this.#turnedAt < this.#halfMs) return;
    this.#previous = now - this.#turnedAt < 2 * this.#halfMs ? this.#current : new Set();
    this.#current = new Set();
    this.#turnedAt = now;
    this.#refusing = false;
  }
}
