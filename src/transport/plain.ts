import { AGO_MAX_MS, DURATION_MAX_MS, type Outcome, parseOutcome, RETRY_AFTER_MAX_MS } from '../domain/outcome.js';
import { booleanAt, end, numberAt, TEXT_MAX_BYTES, Texts, textEnd, textOf, word } from './plain-values.js';

/**
 * A shorter way from bytes to outcomes than `JSON.parse` and `parseOutcome`. Nearly all that workers read is plain: an object, or an array
 * of objects, with nothing but fields we know, without escapes, exponents or blanks (but for one behind a colon or comma), and within every
 * limit. Such bytes are read once, four at a time where they can be, and no object is made for an outcome: collecting these as garbage cost
 * as much as making them. Whatever is not plain, right or wrong, is left to the long way.
 */

/** Most outcomes of one text: as many as an entry may carry. */
const MOST = 1_000;
const AT_MAX_BYTES = 64;

const [COMMA, BLANK, OPEN_LIST, CLOSE_LIST, OPEN, CLOSE] = [0x2c, 0x20, 0x5b, 0x5d, 0x7b, 0x7d];

/** How a field begins, up to its colon: its words behind the first, which lie partly over each other where it is short. */
function fieldOf(name: string) {
  const text = `"${name}":`;
  const last = text.length - 4;
  return {
    length: text.length,
    b: word(text, Math.min(4, last)),
    c: word(text, Math.min(8, last)),
    d: word(text, last),
  };
}
const [CHANNEL, SUCCESS, CODE, SOURCE] = [fieldOf('channel'), fieldOf('success'), fieldOf('code'), fieldOf('source')];
const [AT, AGO, DURATION, RETRY] = [fieldOf('at'), fieldOf('agoMs'), fieldOf('durationMs'), fieldOf('retryAfterMs')];
/** Their first words. */
const [CHANNEL_, SUCCESS_, CODE_, SOURCE_] = [word('"channel'), word('"success'), word('"code'), word('"source')];
const [AT_, AGO_, DURATION_, RETRY_] = [word('"at"'), word('"agoMs'), word('"durationMs'), word('"retryAfterMs')];

/** What was read last, a place each; -1 stands for a number or text that is missing. */
const channels: string[] = Array(MOST).fill('');
const successes = new Uint8Array(MOST);
const durations = new Float64Array(MOST);
const retries = new Float64Array(MOST);
const codes: (string | undefined)[] = Array(MOST).fill(undefined);
const agos = new Float64Array(MOST);
const sourcesFrom = new Int32Array(MOST);
const sourcesTo = new Int32Array(MOST);

/** Of the buffer that was read last, usually that of a whole fetch. Reading behind its end throws. */
let current: DataView<ArrayBufferLike> = new DataView(new ArrayBuffer(0));

/**
 * Hands over the outcomes of a text that is plain, as `parseOutcome` would give them but without `at`, which nobody judges. They come in one
 * object that is used again, and `source` is read when it is asked for: whoever keeps an outcome copies it field by field.
 *
 * @param alone whether the outcomes of several channels are not plain
 * @returns false if the text is not plain; then nothing was handed over
 */
export function eachPlain(bytes: Buffer, alone: boolean, take: (outcome: Outcome) => void): boolean {
  if (bytes.buffer !== current.buffer) current = new DataView(bytes.buffer);
  const count = countOf(bytes, alone);
  for (let n = 0; n < count; n += 1) take(reused.show(n));
  return count > 0;
}

/** How many outcomes were read, 0 if the text is not plain. */
function countOf({ byteOffset, length }: Buffer, alone: boolean): number {
  try {
    return readAll(current, byteOffset, byteOffset + length, alone);
  } catch (error) {
    // It ends too early, with the buffer. Whatever else ends too early does not end where it should.
    if (error instanceof RangeError) return 0;
    throw error;
  }
}

function readAll(view: DataView, from: number, to: number, alone: boolean): number {
  if (view.getUint8(from) !== OPEN_LIST) return readOne(view, from, 0) === to ? 1 : 0;
  let i = from + 1;
  for (let n = 0; n < MOST; n += 1) {
    i = readOne(view, i, n);
    if (i < 0 || (alone && channels[n] !== channels[0])) return 0;
    const byte = view.getUint8(i);
    if (byte !== COMMA) return byte === CLOSE_LIST && i + 1 === to ? n + 1 : 0;
    i = beyondBlank(view, i + 1);
  }
  return 0;
}

/** Where the object ends that begins there, negative if it is not plain. Of a field given twice the last counts, as in `JSON.parse`. */
function readOne(view: DataView, from: number, n: number): number {
  if (view.getUint8(from) !== OPEN) return -1;
  let channel: string | undefined;
  let code: string | undefined;
  let [success, duration, retry, ago, sourceFrom, sourceTo] = [-1, -1, -1, -1, -1, -1];
  let i = from;
  do {
    i = beyondBlank(view, i + 1);
    switch (view.getInt32(i, true)) {
      case CHANNEL_:
        channel = names.at(view, valueBehind(view, i, CHANNEL));
        if (channel === undefined) return -1;
        break;
      case SUCCESS_:
        success = booleanAt(view, valueBehind(view, i, SUCCESS));
        if (success < 0) return -1;
        break;
      case DURATION_:
        duration = numberAt(view, valueBehind(view, i, DURATION), DURATION_MAX_MS);
        if (duration < 0) return -1;
        break;
      case RETRY_:
        retry = numberAt(view, valueBehind(view, i, RETRY), RETRY_AFTER_MAX_MS);
        if (retry < 0) return -1;
        break;
      case CODE_:
        code = texts.at(view, valueBehind(view, i, CODE));
        if (code === undefined) return -1;
        break;
      case SOURCE_:
        sourceFrom = valueBehind(view, i, SOURCE) + 1;
        sourceTo = textEnd(view, sourceFrom, TEXT_MAX_BYTES);
        if (sourceTo < 0) return -1;
        break;
      case AGO_:
        ago = numberAt(view, valueBehind(view, i, AGO), AGO_MAX_MS);
        if (ago < 0) return -1;
        break;
      case AT_:
        i = valueBehind(view, i, AT);
        if (textEnd(view, i + 1, AT_MAX_BYTES) < 0 && numberAt(view, i, Number.MAX_VALUE) < 0) return -1;
        break;
      default:
        return -1;
    }
    i = end;
  } while (view.getUint8(i) === COMMA);
  if (view.getUint8(i) !== CLOSE || channel === undefined || success < 0) return -1;
  channels[n] = channel;
  successes[n] = success;
  durations[n] = duration;
  retries[n] = retry;
  codes[n] = code;
  agos[n] = ago;
  sourcesFrom[n] = sourceFrom;
  sourcesTo[n] = sourceTo;
  return i + 1;
}

const beyondBlank = (view: DataView, i: number) => (view.getUint8(i) === BLANK ? i + 1 : i);

/** Where the value of a field begins whose first word stands there. If it is another field: at a letter, where no value begins. */
function valueBehind(view: DataView, from: number, { length, b, c, d }: ReturnType<typeof fieldOf>): number {
  const last = from + length - 4;
  const isField =
    view.getInt32(last, true) === d &&
    view.getInt32(Math.min(from + 4, last), true) === b &&
    view.getInt32(Math.min(from + 8, last), true) === c;
  return isField ? beyondBlank(view, from + length) : from + 1;
}

const texts = new Texts((text) => text);
const names = new Texts((text) => {
  const parsed = parseOutcome({ channel: text, success: true });
  return parsed.ok ? parsed.outcome.channel : undefined;
});

class Reused implements Outcome {
  channel = '';
  success = false;
  durationMs: number | undefined;
  retryAfterMs: number | undefined;
  code: string | undefined;
  agoMs: number | undefined;
  #n = 0;

  show(n: number): Outcome {
    this.#n = n;
    this.channel = channels[n]!;
    this.success = successes[n] === 1;
    this.durationMs = durations[n]! < 0 ? undefined : durations[n]!;
    this.retryAfterMs = retries[n]! < 0 ? undefined : retries[n]!;
    this.code = codes[n];
    this.agoMs = agos[n]! < 0 ? undefined : agos[n]!;
    return this;
  }

  get source(): string | undefined {
    const from = sourcesFrom[this.#n]!;
    return from < 0 ? undefined : textOf(current, from, sourcesTo[this.#n]!);
  }
}
const reused = new Reused();
