import type { PartitionParts } from './consuming.js';
import { Partition } from './partition.js';

/** All partitions that one reader ever had, and which of them are its own right now. */
export class Partitions {
  readonly #make: (n: number) => Partition;
  readonly #all = new Map<number, Partition>();
  #owned: readonly number[] = [];

  constructor(parts: Omit<PartitionParts, 'partition'>) {
    this.#make = (n) => new Partition({ ...parts, partition: n });
  }

  /** Numbers, ascending. */
  get owned(): readonly number[] {
    return this.#owned;
  }

  get(n: number): Partition {
    const found = this.#all.get(n) ?? this.#make(n);
    this.#all.set(n, found);
    return found;
  }

  mine(): Map<number, Partition> {
    return new Map(this.#owned.map((n) => [n, this.get(n)]));
  }

  /** Another Redis server may answer from now on. */
  doubtServers(): void {
    for (const partition of this.#all.values()) partition.doubtServers();
  }

  /** What the group gave to this reader, in place of what it had. */
  assign(numbers: readonly number[]): void {
    for (const n of this.#owned) if (!numbers.includes(n)) this.get(n).lose();
    for (const n of numbers) if (!this.#owned.includes(n)) this.get(n).assign();
    this.#owned = [...numbers].sort((a, b) => a - b);
  }

  /** Resolves when nothing is in hand, also of partitions that went to others. Never rejects. */
  async atRest(): Promise<void> {
    await Promise.all([...this.#all.values()].map(({ busy }) => busy));
  }

  /** Commits and notes what was handled. Never rejects. */
  async finish(): Promise<void> {
    await Promise.all([...this.mine().values()].map((one) => one.finish()));
  }
}
