import { lastCodecFault } from './codecs.js';
import type { Partition } from './partition.js';
import { type PartitionView, waiting } from './topic-view.js';

/** How long ago a batch that could not be decompressed still explains why nothing moves. */
const FAULT_MS = 5_000;

/** What waits in the partitions of one reader, as last seen, and whether any of it moves. */
export class Lags {
  #lags: ReadonlyMap<number, bigint> = new Map();

  /** `performance.now()` of the last moment at which something was committed or nothing was left to read. */
  lastProgressAt = performance.now();
  /** Why a partition cannot be read though the brokers answer. */
  unreadable: string | undefined;

  /** Takes in a new sight of the owned partitions, and has those doubted whose log ends before what was read of it. */
  see(owned: ReadonlyMap<number, Partition>, seen: ReadonlyMap<number, PartitionView>): void {
    const lags = new Map<number, bigint>();
    for (const [n, partition] of owned) {
      const now = seen.get(n);
      if (now === undefined) continue;
      if (partition.next !== undefined && now.high < partition.next) partition.doubt();
      lags.set(n, waiting(now));
    }
    const before = this.#lags;
    this.#lags = lags;
    this.unreadable = unreadableOf(owned, lags, before);
    const moved = [...lags].some(([n, lag]) => lag < (before.get(n) ?? 0n));
    if (moved || [...lags.values()].every((lag) => lag === 0n)) this.lastProgressAt = performance.now();
  }

  /** Entries that wait in these partitions; -1 when one was not seen yet. */
  total(owned: readonly number[]): number {
    const lags = owned.map((n) => this.#lags.get(n));
    return lags.includes(undefined) ? -1 : Number(lags.reduce<bigint>((sum, lag) => sum + (lag ?? 0n), 0n));
  }

  /** Whether entries wait in a partition whose last batch is done with: it is the consumer's turn. */
  waitsForConsumer(owned: ReadonlyMap<number, Partition>): boolean {
    return [...owned].some(([n, { busy }]) => busy === undefined && (this.#lags.get(n) ?? 0n) > 0n);
  }
}

/** A batch in a codec that cannot be read stops its partition alone; which one, only the lag tells. */
function unreadableOf(
  owned: ReadonlyMap<number, Partition>,
  now: ReadonlyMap<number, bigint>,
  before: ReadonlyMap<number, bigint>,
): string | undefined {
  const fault = lastCodecFault();
  if (fault === undefined || performance.now() - fault.at > FAULT_MS) return undefined;
  const stands = ([n, { busy }]: [number, Partition]) => {
    const lag = now.get(n) ?? 0n;
    return busy === undefined && lag > 0n && lag >= (before.get(n) ?? lag + 1n);
  };
  const stuck = [...owned].find(stands);
  return stuck && `${stuck[1].name}: a batch compressed with ${fault.codec} cannot be read: ${fault.reason}`;
}
