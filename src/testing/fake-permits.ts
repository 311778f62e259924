import { canonicalChannel } from '../domain/channel-name.js';
import type { Lend, PermitCounts } from '../guard/lender.js';

/** Permits in memory, by the fake's clock. */
export class FakePermits {
  readonly #now: () => number;
  readonly #counts: PermitCounts = { lent: 0, refused: 0, unanswered: 0 };
  /** Per channel the deadlines of those that are out. */
  readonly #out = new Map<string, Set<{ readonly until: number }>>();

  constructor(now: () => number) {
    this.#now = now;
  }

  readonly lend: Lend = (name, permits, leaseMs) => {
    const channel = canonicalChannel(name);
    const out = this.#out.get(channel) ?? new Set();
    this.#out.set(channel, out);
    for (const permit of out) if (permit.until <= this.#now()) out.delete(permit);
    if (out.size >= permits) {
      this.#counts.refused += 1;
      return undefined;
    }
    const permit = { until: this.#now() + leaseMs };
    out.add(permit);
    this.#counts.lent += 1;
    return () => void out.delete(permit);
  };

  counts(): PermitCounts {
    return { ...this.#counts };
  }
}
