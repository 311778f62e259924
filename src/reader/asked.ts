import { canonicalChannel } from '../domain/channel-name.js';

/**
 * The channels that somebody here asked about, by the spelling they were asked with. Bounded: past the limit the one not asked about
 * for the longest time is forgotten, so that an order id sent as a channel floods neither memory nor Redis.
 */
export class Asked {
  readonly #most: number;
  readonly #canonical = new Map<string, string>();
  #newest: string | undefined;
  #changes = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /**
   * The canonical name, remembered as just asked. `undefined` for what is no name of a channel; `fresh` when it was not remembered.
   */
  ask(name: unknown): { channel: string; fresh: boolean } | undefined {
    const known = this.#canonical.get(name as string);
    if (known !== undefined) {
      this.#touch(name as string, known);
      return { channel: known, fresh: false };
    }
    try {
      const channel = canonicalChannel(name);
      this.#touch(name as string, channel);
      this.#changes++;
      if (this.#canonical.size > this.#most) this.#canonical.delete(this.#canonical.keys().next().value!);
      return { channel, fresh: true };
    } catch {
      return undefined;
    }
  }

  get size(): number {
    return this.#canonical.size;
  }

  /** Moves on when a name is remembered anew: what was made of {@link channels} is out of date then. */
  get changes(): number {
    return this.#changes;
  }

  channels(): Iterable<string> {
    return this.#canonical.values();
  }

  /** Moves the name to the young end. A map keeps the order of insertion. */
  #touch(name: string, channel: string): void {
    if (name === this.#newest) return;
    this.#canonical.delete(name);
    this.#canonical.set(name, channel);
    this.#newest = name;
  }
}
