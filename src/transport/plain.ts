import { CHANNEL_NAME_MAX_BYTES } from '../domain/channel-name.js';

/**
 * A shorter way to what `JSON.parse` makes of outcomes. Nearly all that workers read is written in one plain form: fields in the order
 * below, no escapes, no exponents, no blanks or one behind each colon and comma. One regular expression tells whether a text has that
 * form; then its values are found by counting characters, in a third of the time of `JSON.parse`.
 */

const NUMBER = String.raw`(?:0|[1-9]\d{0,14})(?:\.\d{1,20})?`;
const TEXT = String.raw`"[^"\\\x00-\x1f]*"`;

/** A way to write JSON: with a blank behind each colon and comma (as Python does), or without. */
type Style = { readonly blank: number; readonly one: RegExp; readonly many: RegExp };

function styleWith(blank: string): Style {
  const maybe = (name: string, value: string) => `(?:,${blank}"${name}":${blank}${value})?`;
  const outcome = [
    `\\{"channel":${blank}${TEXT},${blank}"success":${blank}(?:true|false)`,
    maybe('durationMs', NUMBER),
    maybe('retryAfterMs', NUMBER),
    maybe('code', TEXT),
    maybe('at', `(?:${NUMBER}|${TEXT})`),
    maybe('source', TEXT),
    maybe('agoMs', NUMBER),
    '\\}',
  ].join('');
  const many = `^\\[${outcome}(?:,${blank}${outcome})*\\]$`;
  return { blank: blank.length, one: new RegExp(`^${outcome}$`), many: new RegExp(many) };
}

const COMPACT = styleWith('');
const SPACED = styleWith(' ');
/** More than this is left to `JSON.parse`: a regular expression remembers each character it may come back to. */
const LENGTH_MAX = 262_144;

const QUOTE = 0x22;
const COMMA = 0x2c;
const BLANK = 0x20;
const POINT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const LIST = 0x5b;
const T = 0x74;

/** What a plain text holds, as it was written: this file knows JSON, and no rule for outcomes. */
export type PlainOutcome = {
  readonly channel: string;
  readonly success: boolean;
  readonly durationMs: number | undefined;
  readonly retryAfterMs: number | undefined;
  readonly code: string | undefined;
  readonly at: number | string | undefined;
  readonly source: string | undefined;
  readonly agoMs: number | undefined;
};

/**
 * What `JSON.parse` would make of a text that is an outcome, or an array of them, in the plain form; only that fields which are missing
 * are undefined. Undefined where the text has another form, right or wrong: `JSON.parse` decides about it. `code`, `source` and `at` may
 * be slices that keep the whole text in memory, so whoever keeps one makes a copy.
 */
export function parsePlain(text: string): PlainOutcome | PlainOutcome[] | undefined {
  const isList = text.charCodeAt(0) === LIST;
  const { blank, one, many } = text.charCodeAt(isList ? 12 : 11) === BLANK ? SPACED : COMPACT;
  if (text.length > LENGTH_MAX || !(isList ? many : one).test(text)) return undefined;
  const outcomes = readAll(text, isList ? 1 : 0, blank);
  return isList ? outcomes : outcomes[0];
}

/** Where the value ends that was read last. */
let end = 0;

function readAll(text: string, from: number, blank: number): PlainOutcome[] {
  const outcomes: PlainOutcome[] = [];
  let channel = '';
  for (let i = from; ; i += 2 + blank) {
    i += 12 + blank; // {"channel":"
    // Not character by character: names are strings of many kinds inside V8, and reading them would slow down every read of this file.
    if (!text.startsWith(channel, i) || text.charCodeAt(i + channel.length) !== QUOTE)
      channel = copyOf(textAt(text, i));
    i += channel.length + 12 + 2 * blank; // ","success":
    const success = text.charCodeAt(i) === T;
    i += success ? 4 : 5;
    let durationMs: number | undefined;
    let retryAfterMs: number | undefined;
    let code: string | undefined;
    let at: number | string | undefined;
    let source: string | undefined;
    let agoMs: number | undefined;
    while (text.charCodeAt(i) === COMMA) {
      i += 2 + blank; // ,"
      switch (text.charCodeAt(i + 1)) {
        case 0x75: // durationMs":
          durationMs = numberAt(text, i + 12 + blank);
          break;
        case 0x65: // retryAfterMs":
          retryAfterMs = numberAt(text, i + 14 + blank);
          break;
        case 0x6f: // code":" or source":"
          if (text.charCodeAt(i) === 0x63) code = textAt(text, i + 7 + blank);
          else source = textAt(text, i + 9 + blank);
          break;
        case 0x67: // agoMs":
          agoMs = numberAt(text, i + 7 + blank);
          break;
        default: // at": or at":"
          i += 4 + blank;
          at = text.charCodeAt(i) === QUOTE ? textAt(text, i + 1) : numberAt(text, i);
      }
      i = end;
    }
    outcomes.push({ channel, success, durationMs, retryAfterMs, code, at, source, agoMs });
    if (text.charCodeAt(i + 1) !== COMMA) return outcomes;
  }
}

/** The text that begins there. */
function textAt(text: string, from: number): string {
  let i = from;
  while (text.charCodeAt(i) !== QUOTE) i += 1;
  end = i + 1;
  return text.slice(from, i);
}

function numberAt(text: string, from: number): number {
  let i = from;
  let whole = 0;
  let character = text.charCodeAt(i);
  // Up to 15 digits: every sum on the way is exact.
  while (character >= ZERO && character <= NINE) {
    whole = whole * 10 + (character - ZERO);
    i += 1;
    character = text.charCodeAt(i);
  }
  if (character === POINT) {
    do i += 1;
    while (text.charCodeAt(i) >= ZERO && text.charCodeAt(i) <= NINE);
    whole = Number(text.slice(from, i));
  }
  end = i;
  return whole;
}

const copies = new Map<string, string>();
/** The same few channels come a million times, and their names are kept for long: a slice would keep its text with it. */
function copyOf(name: string): string {
  const found = copies.get(name);
  if (found !== undefined) return found;
  const copy = JSON.parse(JSON.stringify(name)) as string;
  if (copies.size >= 10_000) copies.clear();
  if (copy.length <= CHANNEL_NAME_MAX_BYTES) copies.set(copy, copy);
  return copy;
}
