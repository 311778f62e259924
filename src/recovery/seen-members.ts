const LOOK_EVERY_MS = 10_000;
/** Channels that had no traffic for so long are members no more. */
const REMEMBER_MS = 24 * 3_600_000;
/** Long enough for channels with a call every few minutes. */
const LEARN_MS = 600_000;

/**
 * Channels that had traffic lately. The healthy members of a group into which a pattern puts channels are known in no other way; so they are
 * remembered for a day, and whoever has just begun to look knows too few of them.
 */
export class SeenMembers {
  readonly #ask: (() => Promise<Iterable<string>>) | undefined;
  readonly #learnMs: number;
  readonly #onError: (error: unknown) => void;
  readonly #seenAt = new Map<string, number>();
  #askedAt = Number.NEGATIVE_INFINITY;
  #answeredAt = Number.NEGATIVE_INFINITY;
  #firstAt: number | undefined;

  /** @param ask which channels had traffic in the last minute @param onError told that there was no answer */
  constructor(
    ask: (() => Promise<Iterable<string>>) | undefined,
    onError: (error: unknown) => void,
    learnMs = LEARN_MS,
  ) {
    this.#onError = onError;
    this.#ask = ask;
    this.#learnMs = learnMs;
  }

  /** Whether there has been traffic to learn from for long enough. */
  get isComplete(): boolean {
    return this.#firstAt !== undefined && performance.now() - this.#firstAt >= this.#learnMs;
  }

  /** Asks at most every 10 s; without an answer, what is known. */
  async channels(): Promise<Iterable<string>> {
    const now = performance.now();
    if (this.#ask !== undefined && now - this.#askedAt > LOOK_EVERY_MS) await this.#look(this.#ask, now);
    return this.#seenAt.keys();
  }

  async #look(ask: () => Promise<Iterable<string>>, now: number): Promise<void> {
    // Whoever has not looked for long knows as little as one who begins.
    if (now - this.#answeredAt > this.#learnMs) this.#firstAt = undefined;
    this.#askedAt = now;
    try {
      for (const channel of await ask()) this.#seenAt.set(channel, now);
    } catch (error) {
      this.#onError(error);
      return;
    }
    this.#answeredAt = now;
    for (const [channel, at] of this.#seenAt) if (now - at > REMEMBER_MS) this.#seenAt.delete(channel);
    this.#firstAt = this.#seenAt.size > 0 ? (this.#firstAt ?? now) : undefined;
  }
}
