const LOOK_EVERY_MS = 10_000;
/** Channels that had no traffic for so long are members no more. */
const REMEMBER_MS = 24 * 3_600_000;
/** Workers tell of their last minute, and may have begun with this process. */
const LEARN_MS = 90_000;

/**
 * Channels that had traffic lately. The healthy members of a group into which a pattern puts channels are known in no other way; so they are
 * remembered for a day, and whoever has just begun to look knows too few of them.
 */
export class SeenMembers {
  readonly #ask: (() => Promise<Iterable<string>>) | undefined;
  readonly #learnMs: number;
  readonly #seenAt = new Map<string, number>();
  #askedAt = Number.NEGATIVE_INFINITY;
  #firstAt: number | undefined;

  /** @param ask which channels had traffic in the last minute */
  constructor(ask: (() => Promise<Iterable<string>>) | undefined, learnMs = LEARN_MS) {
    this.#ask = ask;
    this.#learnMs = learnMs;
  }

  /** Whether there has been traffic to learn from for long enough. */
  get isComplete(): boolean {
    return this.#firstAt !== undefined && performance.now() - this.#firstAt >= this.#learnMs;
  }

  /** Asks at most every 10 s. @throws what the answer is */
  async channels(): Promise<Iterable<string>> {
    const now = performance.now();
    if (this.#ask !== undefined && now - this.#askedAt > LOOK_EVERY_MS) {
      for (const channel of await this.#ask()) this.#seenAt.set(channel, now);
      this.#askedAt = now;
      if (this.#seenAt.size > 0) this.#firstAt ??= now;
      for (const [channel, at] of this.#seenAt) if (now - at > REMEMBER_MS) this.#seenAt.delete(channel);
    }
    return this.#seenAt.keys();
  }
}
