import type { Outcome } from '../../domain/outcome.js';
import { eachPlain } from '../plain.js';
import { type LogEntry, RAW_MAX } from '../port.js';
import { msOf } from './stream-id.js';

/** Most outcomes that one entry may carry. */
export const OUTCOMES_MAX = 1_000;
/** Most bytes that the field `outcomes` may have: 1 MiB. */
export const OUTCOMES_MAX_BYTES = 1_048_576;

/**
 * Reads one stream entry. Two forms: plain fields that are one outcome (`channel ALIPAY success 0 …`, all text), or a field `outcomes`
 * with a JSON array of them. What cannot be told for sure is a fault of the whole entry, never a guess: both forms together, neither
 * of them, a field given twice, no JSON, no array, too much. Other fields, such as `v`, are ignored.
 *
 * Bytes that are not UTF-8 arrive as U+FFFD, which no channel's name may hold: such an outcome is a dead letter of its own.
 */
export function decodeEntry(id: string, fields: readonly string[]): LogEntry {
  const raw = () => JSON.stringify(fields.map((text) => text.slice(0, RAW_MAX))).slice(0, RAW_MAX);
  const entry = { position: id, arrivalMs: msOf(id), raw };
  const content = contentOf(fields);
  if (typeof content === 'string') return { ...entry, outcomes: [], fault: content };
  return 'outcome' in content ? { ...entry, outcomes: [content.outcome] } : new PackedEntry(entry, content.packed);
}

/** The one outcome, the text of many, or the fault as text. */
function contentOf(fields: readonly string[]): { outcome: unknown } | { packed: string } | string {
  const seen = new Map<string, string>();
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i]!;
    if (seen.has(name)) return `the field ${JSON.stringify(name.slice(0, 60))} is given twice`;
    seen.set(name, fields[i + 1]!);
  }
  const packed = seen.get('outcomes');
  if (packed === undefined) {
    if (seen.has('channel')) return { outcome: Object.fromEntries(seen) };
    return 'an entry needs a field "channel" or a field "outcomes"';
  }
  if (seen.has('channel') || seen.has('success'))
    return 'an entry has either a field "outcomes" or plain fields, not both';
  return { packed };
}

/** Decodes when it is asked; mostly it is not, because its outcomes are plain. */
class PackedEntry implements LogEntry {
  readonly position: string;
  readonly arrivalMs: number;
  readonly raw: () => string;
  readonly #text: string;
  #unpacked: unknown[] | string | undefined;

  constructor({ position, arrivalMs, raw }: Pick<LogEntry, 'position' | 'arrivalMs' | 'raw'>, text: string) {
    this.position = position;
    this.arrivalMs = arrivalMs;
    this.raw = raw;
    this.#text = text;
  }

  get outcomes(): readonly unknown[] {
    const unpacked = this.#unpack();
    return typeof unpacked === 'string' ? [] : unpacked;
  }

  get fault(): string | undefined {
    const unpacked = this.#unpack();
    return typeof unpacked === 'string' ? unpacked : undefined;
  }

  eachPlain(take: (outcome: Outcome) => void): boolean {
    // A single outcome is none of a field `outcomes`, and half a pair of surrogates would not come back from bytes.
    if (!this.#text.startsWith('[') || this.#text.length > OUTCOMES_MAX_BYTES || !this.#text.isWellFormed())
      return false;
    const bytes = Buffer.from(this.#text);
    return bytes.length <= OUTCOMES_MAX_BYTES && eachPlain(bytes, false, take);
  }

  #unpack(): unknown[] | string {
    this.#unpacked ??= unpack(this.#text);
    return this.#unpacked;
  }
}

function unpack(text: string): unknown[] | string {
  if (text.length > OUTCOMES_MAX_BYTES || Buffer.byteLength(text) > OUTCOMES_MAX_BYTES) {
    return `the field "outcomes" may have ${OUTCOMES_MAX_BYTES} bytes at most, got ${Buffer.byteLength(text)}`;
  }
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    return `the field "outcomes" is no JSON: ${error instanceof Error ? error.message.slice(0, 120) : 'unknown'}`;
  }
  if (!Array.isArray(parsed))
    return `the field "outcomes" must be a JSON array, got ${parsed === null ? 'null' : typeof parsed}`;
  if (parsed.length > OUTCOMES_MAX) return `an entry may carry ${OUTCOMES_MAX} outcomes at most, got ${parsed.length}`;
  return parsed;
}
