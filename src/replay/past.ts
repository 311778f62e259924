import { type LogBatch, type LogEntry, RAW_MAX } from '../transport/port.js';

/**
 * An entry of a log or a recording, with where it came from: entries of two sources are never one, though they have one position. A class,
 * because a million of them are made one after the other, and whatever else hung on each would be felt.
 */
export class PastEntry implements LogEntry {
  readonly partition: string;
  readonly position: string;
  readonly arrivalMs: number;
  /** Grows where each line of a file holds one outcome of the entry. */
  readonly outcomes: unknown[];
  readonly source: number;

  constructor(partition: string, position: string, arrivalMs: number, outcomes: unknown[], source: number) {
    this.partition = partition;
    this.position = position;
    this.arrivalMs = arrivalMs;
    this.outcomes = outcomes;
    this.source = source;
  }

  raw(): string {
    return JSON.stringify(this.outcomes).slice(0, RAW_MAX);
  }
}

/** Arrivals from `fromMs` on, before `toMs`. */
export type TimeRange = { readonly fromMs: number; readonly toMs: number };

export const ALWAYS: TimeRange = { fromMs: Number.NEGATIVE_INFINITY, toMs: Number.POSITIVE_INFINITY };

/** What was read, counted while it is read. */
export type Reading = {
  /** Lines of files (empty ones not counted), or entries of a log. */
  read: number;
  /** Lines, entries or outcomes that could not be read. */
  bad: number;
  /** The first of them. */
  readonly firstBad: { readonly where: string; readonly reason: string }[];
  /** Outcomes that arrived outside the range. */
  outOfRange: number;
  /** Sources that could not be read to their end, and why. */
  readonly endsEarly: string[];
  /** How far reading has come: bytes or ms, out of `total` where that is known. */
  progress: () => { readonly done: number; readonly total?: number };
};

export function newReading(): Reading {
  return { read: 0, bad: 0, firstBad: [], outOfRange: 0, endsEarly: [], progress: () => ({ done: 0 }) };
}

const FIRST_BAD = 5;

export function tellBad(reading: Reading, where: string, reason: string): void {
  reading.bad += 1;
  if (reading.firstBad.length < FIRST_BAD) reading.firstBad.push({ where, reason });
}

/** A source that cannot be read at all; the message is for the person who named it. */
export class CannotRead extends Error {
  override readonly name = 'CannotRead';
}

/** As many as an entry of a log may carry. */
const OUTCOMES_MOST = 1_000;
/** Parts of what arrived together are judged as the whole would have been; where a day is all that times say, the whole is a file. */
const ENTRIES_MOST = 2_000;

/**
 * Puts entries that arrived together together, and hands them over as batches. Each batch has one arrival, because that is the instant at
 * which it is judged; and positions that ascend, because a fence knows a batch by them.
 */
export class Batches {
  readonly #emit: (batch: LogBatch, arrivalMs: number) => void;
  #entries: PastEntry[] = [];
  #last: PastEntry | undefined;

  constructor(emit: (batch: LogBatch, arrivalMs: number) => void) {
    this.#emit = emit;
  }

  add(entry: PastEntry): void {
    const last = this.#last;
    if (last !== undefined) {
      const together =
        entry.arrivalMs === last.arrivalMs && entry.source === last.source && entry.partition === last.partition;
      const fits = last.outcomes.length < OUTCOMES_MOST;
      if (together && entry.position === last.position && fits) {
        last.outcomes.push(...entry.outcomes);
        return;
      }
      const full = this.#entries.length >= ENTRIES_MOST;
      if (!together || full || !ascends(last.position, entry.position)) this.end();
    }
    this.#entries.push(entry);
    this.#last = entry;
  }

  /** Hands over what is left. */
  end(): void {
    const last = this.#last;
    if (last === undefined) return;
    const entries = this.#entries;
    this.#entries = [];
    this.#last = undefined;
    this.#emit({ partition: last.partition, entries }, last.arrivalMs);
  }
}

/** Read again, a log begins at a lower position. */
function ascends(before: string, after: string): boolean {
  const [a, b] = [before.split('-'), after.split('-')];
  const differ = a[0] === b[0] ? 1 : 0;
  const [x, y] = [a[differ] ?? '0', b[differ] ?? '0'];
  return x.length === y.length ? x < y : x.length < y.length;
}
