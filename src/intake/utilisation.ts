type Sample = ReturnType<typeof performance.eventLoopUtilization>;

/** How busy this process's event loop was over its last `samples` looks; a look costs a microsecond. */
export class Utilisation {
  readonly #most: number;
  readonly #samples: Sample[] = [performance.eventLoopUtilization()];

  constructor(samples: number) {
    this.#most = samples;
  }

  /** The share of time in which it was not idle, 0 to 1, from the oldest look kept to this one. */
  look(): number {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, this.#samples[0]);
    this.#samples.push(now);
    if (this.#samples.length > this.#most) this.#samples.shift();
    return Math.min(Math.max(utilization, 0), 1);
  }
}
