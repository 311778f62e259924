/**
 * The values of plain JSON in bytes. Nothing here makes an object: each function tells what stands at a place, or something negative where
 * that is not plain, and leaves in {@link end} where it ends. Reading behind the end of the buffer throws.
 */

/** Most bytes of a text, so that it has no more characters either. */
export const TEXT_MAX_BYTES = 128;

const [QUOTE, BLANK, BACKSLASH, POINT, ZERO, NINE, E] = [0x22, 0x20, 0x5c, 0x2e, 0x30, 0x39, 0x65];

/** Four bytes of a text as a number, to be compared at one go. */
export const word = (text: string, at = 0): number => Buffer.from(text).readInt32LE(at);
const [TRUE, FALS] = [word('true'), word('fals')];

/** Where the value ends that was read last. */
export let end = 0;

/** 1 or 0, negative if it is neither. */
export function booleanAt(view: DataView, from: number): number {
  const first = view.getInt32(from, true);
  end = from + (first === TRUE ? 4 : 5);
  if (first === TRUE) return 1;
  return first === FALS && view.getUint8(from + 4) === E ? 0 : -1;
}

/** Where the text ends whose first character stands there, behind its quote; negative if it is not plain. */
export function textEnd(view: DataView, from: number, most: number): number {
  if (view.getUint8(from - 1) !== QUOTE) return -1;
  for (let i = from; i <= from + most; i += 1) {
    const byte = view.getUint8(i);
    if (byte === QUOTE) {
      end = i + 1;
      return i;
    }
    if (byte < BLANK || byte === BACKSLASH) return -1;
  }
  return -1;
}

/** The number that begins there, negative if it is not plain or more than `most`. */
export function numberAt(view: DataView, from: number, most: number): number {
  let i = from;
  let number = 0;
  let point = -1;
  for (; ; i += 1) {
    const byte = view.getUint8(i);
    if (byte >= ZERO && byte <= NINE) number = number * 10 + (byte - ZERO);
    else if (byte === POINT && point < 0) point = i;
    else break;
  }
  end = i;
  const whole = (point < 0 ? i : point) - from;
  if (whole === 0 || point === i - 1 || (whole > 1 && view.getUint8(from) === ZERO)) return -1;
  if (i - from > 16) number = Number(textOf(view, from, i));
  // Up to 15 digits these and the power of ten are exact, so that their quotient is rounded once, as `Number` and JSON.parse round.
  else if (point >= 0) number /= 10 ** (i - point - 1);
  return number <= most ? number : -1;
}

type Known = { readonly quoted: Uint8Array; readonly value: string | undefined };

/** The same few channels and codes come a million times: they are known by their bytes, and no string is made of these. */
export class Texts {
  readonly #known = new Map<number, Known>();
  readonly #make: (text: string) => string | undefined;
  #last: Known = { quoted: Uint8Array.of(0), value: undefined };

  constructor(make: (text: string) => string | undefined) {
    this.#make = make;
  }

  /** What was made of the text whose quote stands there, undefined if it is not plain. */
  at(view: DataView, quote: number): string | undefined {
    if (view.getUint8(quote) !== QUOTE) return undefined;
    const from = quote + 1;
    if (!isAt(view, from, this.#last.quoted)) {
      const to = textEnd(view, from, TEXT_MAX_BYTES);
      if (to < 0) return undefined;
      this.#last = this.#find(view, from, to);
    }
    end = from + this.#last.quoted.length;
    return this.#last.value;
  }

  #find(view: DataView, from: number, to: number): Known {
    let hash = 0;
    for (let i = from; i < to; i += 1) hash = (Math.imul(hash, 31) + view.getUint8(i)) | 0;
    const found = this.#known.get(hash);
    if (found !== undefined && isAt(view, from, found.quoted)) return found;
    const made = { quoted: new Uint8Array(view.buffer.slice(from, to + 1)), value: this.#make(textOf(view, from, to)) };
    if (this.#known.size >= 10_000) this.#known.clear();
    this.#known.set(hash, made);
    return made;
  }
}

function isAt(view: DataView, from: number, quoted: Uint8Array): boolean {
  for (let i = 0; i < quoted.length; i += 1) if (view.getUint8(from + i) !== quoted[i]) return false;
  return true;
}

/** A copy: it keeps nothing of the buffer alive. */
export const textOf = (view: DataView, from: number, to: number): string =>
  Buffer.from(view.buffer, from, to - from).toString();
