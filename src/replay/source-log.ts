import type { LogEntry } from '../transport/port.js';
import { mergeByArrival } from './merge.js';
import { PastEntry, type Reading, type TimeRange, tellBad } from './past.js';

/** One partition of a log, as a transport reads it. */
export type LogPart = { readonly partition: string; readonly entries: AsyncIterable<readonly LogEntry[]> };

/**
 * The entries of a log's partitions, by arrival. @param logClockLeadMs by how much the log's clock goes ahead, as workers are told
 */
export function readLog(
  parts: readonly LogPart[],
  { range, reading, logClockLeadMs }: { range: TimeRange; reading: Reading; logClockLeadMs: number },
): AsyncIterable<readonly PastEntry[]> {
  let [first, last] = [Number.POSITIVE_INFINITY, 0];
  const endMs = Math.min(range.toMs, Date.now());
  reading.progress = () => ({ done: Math.max(0, last - first), ...(last > first ? { total: endMs - first } : {}) });

  async function* read({ partition, entries }: LogPart, source: number): AsyncGenerator<PastEntry[]> {
    for await (const chunk of entries) {
      const past: PastEntry[] = [];
      for (const { position, arrivalMs: arrived, outcomes, fault } of chunk) {
        reading.read += 1;
        const arrivalMs = arrived - logClockLeadMs;
        [first, last] = [Math.min(first, arrivalMs), Math.max(last, arrivalMs)];
        if (fault !== undefined) tellBad(reading, `${partition} ${position}`, fault);
        // A topic whose producers stamp it holds other times too.
        else if (arrived < range.fromMs || arrived >= range.toMs) reading.outOfRange += outcomes.length;
        else past.push(new PastEntry(partition, position, arrivalMs, [...outcomes], source));
      }
      yield past;
    }
  }
  return mergeByArrival(parts.map(read));
}
