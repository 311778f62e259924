import { show } from '../domain/channel-name.js';
import { Outcome, parseOutcome } from '../domain/outcome.js';

/** Where in a log an outcome lay; all outcomes of one entry share it. */
export type Place = { readonly partition: string; readonly position: string };

/** An outcome of the past. `place` is absent where the line has none: then its number stands for it. */
export type RecordedOutcome = { readonly outcome: Outcome; readonly arrivalMs: number; readonly place?: Place };

export type ReadLine =
  | { readonly ok: true; readonly recorded: RecordedOutcome }
  | { readonly ok: false; readonly reason: string };

const FIELDS = Object.keys(Outcome.shape) as (keyof Outcome)[];

/**
 * One outcome as a line of a recording, its end included: when it arrived, where it lay, and the fields of an outcome. What else a
 * program had put into it is left out: nothing judges it, and nobody has looked whether it may be kept.
 */
export function recordedLine(outcome: Outcome, arrivalMs: number, place?: Place): string {
  // By hand: `JSON.stringify` of an object made for it takes three times as long, in the thread that judges.
  let line = `{"arrivalMs":${arrivalMs}`;
  if (place !== undefined) line += `,"partition":${quoted(place.partition)},"position":${quoted(place.position)}`;
  for (const field of FIELDS) {
    const value = outcome[field];
    // `1e999` is JSON, and what it becomes is not.
    if (value === undefined || value === Number.POSITIVE_INFINITY || value === Number.NEGATIVE_INFINITY) continue;
    line += `,"${field}":${typeof value === 'string' ? quoted(value) : value}`;
  }
  return `${line}}\n`;
}

const PLAIN = /^[ !#-[\]-~]*$/;
const quoted = (text: string) => (PLAIN.test(text) ? `"${text}"` : JSON.stringify(text));

/**
 * Reads one line of a recording, or of any file of outcomes: its time is `arrivalMs`, or else `at`. Never throws; the reason names the
 * rule and the value.
 */
export function readRecordedLine(text: string): ReadLine {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { ok: false, reason: `not JSON: ${(error as Error).message.slice(0, 120)}` };
  }
  const parsed = parseOutcome(value);
  if (!parsed.ok) return parsed;
  const { outcome } = parsed;
  const { arrivalMs: given, partition, position } = value as Record<string, unknown>;
  const arrivalMs = timeOf(given ?? outcome.at);
  if (arrivalMs === undefined) return { ok: false, reason: timeRule(given, outcome.at) };
  if (!isPartition(partition) || !isPosition(position)) return { ok: true, recorded: { outcome, arrivalMs } };
  return { ok: true, recorded: { outcome, arrivalMs, place: { partition, position } } };
}

/** Smaller numbers are seconds taken for milliseconds, larger ones are no dates. */
const EARLIEST_MS = 100_000_000_000;
const LATEST_MS = 100_000_000_000_000;

function timeOf(value: unknown): number | undefined {
  const ms =
    typeof value === 'number'
      ? value
      : typeof value !== 'string'
        ? Number.NaN
        : /^\d+$/.test(value)
          ? Number(value)
          : Date.parse(value);
  return ms >= EARLIEST_MS && ms <= LATEST_MS ? Math.floor(ms) : undefined;
}

function timeRule(arrivalMs: unknown, at: unknown): string {
  const rule = 'ms since 1970 (a number of 12 to 14 digits)';
  if (arrivalMs !== undefined) return `arrivalMs must be ${rule}, got ${show(arrivalMs)}`;
  if (at !== undefined) return `at must be ${rule} or a time such as 2026-11-29T10:00:00Z, got ${show(at)}`;
  return 'a line needs arrivalMs, as recordings have it, or at: without a time nobody can tell what it would have blocked';
}

const isPartition = (value: unknown): value is string =>
  typeof value === 'string' && value.length > 0 && value.length <= 500;
const isPosition = (value: unknown): value is string =>
  typeof value === 'string' && /^\d{1,20}(-\d{1,20})?$/.test(value);
