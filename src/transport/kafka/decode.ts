import type { KafkaMessage } from 'kafkajs';
import type { Outcome } from '../../domain/outcome.js';
import { eachPlain } from '../plain.js';
import { type LogEntry, RAW_MAX } from '../port.js';
import { OUTCOMES_MAX, VALUE_MAX_BYTES } from './options.js';

/**
 * Reads one record: a JSON object that is one outcome, or an array of one channel's outcomes. Whatever else it is, is a fault of the
 * whole record, never a guess: no value (a tombstone), an empty one, no JSON, too much, several channels. Key and headers are not read:
 * the channel stands in the value.
 *
 * Bytes that are not UTF-8 arrive as U+FFFD, which no channel's name may hold: such an outcome is a dead letter of its own.
 */
export function decodeRecord(message: KafkaMessage): LogEntry {
  return new RecordEntry(message);
}

/**
 * Decodes when it is asked, and forgets when the next one is: the outcomes of a whole batch, made beforehand, outlive the collections of
 * garbage meanwhile, and moving them took as long as decoding them.
 */
class RecordEntry implements LogEntry {
  static #last: { readonly entry: RecordEntry; readonly decoded: readonly unknown[] | string } | undefined;
  readonly position: string;
  readonly arrivalMs: number;
  readonly #value: Buffer | null;

  constructor({ offset, timestamp, value }: KafkaMessage) {
    this.position = offset;
    this.arrivalMs = Number(timestamp);
    this.#value = value;
  }

  get outcomes(): readonly unknown[] {
    const decoded = this.#decoded();
    return typeof decoded === 'string' ? [] : decoded;
  }

  get fault(): string | undefined {
    const decoded = this.#decoded();
    return typeof decoded === 'string' ? decoded : undefined;
  }

  eachPlain(take: (outcome: Outcome) => void): boolean {
    return this.#value !== null && this.#value.length <= VALUE_MAX_BYTES && eachPlain(this.#value, true, take);
  }

  raw(): string {
    return textOf(this.#value);
  }

  #decoded(): readonly unknown[] | string {
    if (RecordEntry.#last?.entry !== this) RecordEntry.#last = { entry: this, decoded: readValue(this.#value) };
    return RecordEntry.#last.decoded;
  }
}

/** A copy: the record's bytes are a view of the whole fetch, which a letter must not keep alive. */
function textOf(value: Buffer | null): string {
  if (value === null) return '';
  const cut = value.subarray(0, 4 * RAW_MAX);
  return cut.toString('utf8').slice(0, RAW_MAX);
}

/** The outcomes, or the fault as text. */
function readValue(value: Buffer | null): unknown[] | string {
  if (value === null) return 'a record needs a value: an outcome as JSON, or an array of them; got none';
  if (value.length === 0) return 'a record needs a value: an outcome as JSON, or an array of them; got 0 bytes';
  if (value.length > VALUE_MAX_BYTES) return `a record may have ${VALUE_MAX_BYTES} bytes at most, got ${value.length}`;
  const text = value.toString('utf8');
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    return `a record's value is no JSON: ${error instanceof Error ? error.message.slice(0, 120) : 'unknown'}`;
  }
  if (!Array.isArray(parsed)) return typeof parsed === 'object' && parsed !== null ? [parsed] : wrongKind(parsed);
  if (parsed.length > OUTCOMES_MAX) return `a record may carry ${OUTCOMES_MAX} outcomes at most, got ${parsed.length}`;
  return severalChannels(parsed) ?? parsed;
}

function wrongKind(parsed: unknown): string {
  return `a record's value must be a JSON object or an array, got ${parsed === null ? 'null' : typeof parsed}`;
}

/** Another channel's outcomes would lie in a partition that is not theirs, and lose their order. */
function severalChannels(outcomes: readonly unknown[]): string | undefined {
  let first: string | undefined;
  for (const outcome of outcomes) {
    const channel: unknown = (outcome as { channel?: unknown } | null)?.channel;
    if (typeof channel !== 'string' || channel === first) continue;
    first ??= channel;
    if (channel.normalize('NFC') === first.normalize('NFC')) continue;
    const show = (name: string) => JSON.stringify(name.slice(0, 60).toWellFormed());
    return `an array holds the outcomes of one channel, which is also the record's key; got ${show(first)} and ${show(channel)}`;
  }
  return undefined;
}
