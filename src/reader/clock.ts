/** One comparison of Redis time with the local monotonic clock. */
export type TimeSample = { readonly redisMs: number; readonly localMs: number; readonly roundTripMs: number };

/** A slow answer says little about the time; it replaces a good one only when that is this old. */
const GOOD_ROUND_TRIP_MS = 20;
const GOOD_FOR_MS = 30_000;

/**
 * Redis time told from the local monotonic clock, so that nobody who sets the wall clock of this machine moves the end of a block.
 */
export class RedisClock {
  #sample: TimeSample | undefined;

  /** Redis ms now; `-Infinity` before the first sample, so that nothing has ended yet. */
  now(): number {
    return this.#sample ? performance.now() - this.#sample.localMs + this.#sample.redisMs : Number.NEGATIVE_INFINITY;
  }

  /** Takes a sample over, unless it is a worse one than the one held. */
  set(sample: TimeSample): void {
    const held = this.#sample;
    const worse = sample.roundTripMs > GOOD_ROUND_TRIP_MS && held && held.roundTripMs < sample.roundTripMs;
    if (worse && sample.localMs - held.localMs < GOOD_FOR_MS) return;
    this.#sample = sample;
  }
}
