/** Most UTF-8 bytes that a channel's name may have after NFC: it becomes part of seven Redis keys and of every metric. */
export const CHANNEL_NAME_MAX_BYTES = 128;

/**
 * Thrown (or reported as a dead letter) when a channel's name breaks a rule. The message says the rule and shows the name, cut
 * and with control characters escaped, so that it is safe in a log.
 */
export class ChannelNameError extends Error {
  override readonly name = 'ChannelNameError';
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are exactly what is refused here
const FORBIDDEN = /[{}\u0000-\u001f\u007f-\u009f]/;

/**
 * The canonical (NFC) form of a channel's name. Two spellings that look alike must meet in one key, and braces would break the
 * hash tag that keeps a channel's keys in one cluster slot.
 *
 * @throws {ChannelNameError} not a string, empty, over 128 bytes, braces, control characters, lone surrogates, U+FFFD, edge white space
 */
export function canonicalChannel(name: unknown): string {
  if (typeof name !== 'string') throw new ChannelNameError(`channel must be a string, got ${show(name)}`);
  if (name.length > CHANNEL_NAME_MAX_BYTES) throw tooLong(name);
  if (!name.isWellFormed()) throw new ChannelNameError(`channel must not hold lone surrogates, got ${show(name)}`);
  // What decoders put in place of bytes that are not UTF-8: two different names would meet in one.
  if (name.includes('\ufffd')) throw new ChannelNameError(`channel must be UTF-8, got ${show(name)}`);
  const canonical = name.normalize('NFC');
  if (canonical === '') throw new ChannelNameError('channel must not be empty');
  if (Buffer.byteLength(canonical) > CHANNEL_NAME_MAX_BYTES) throw tooLong(canonical);
  if (canonical.trim() !== canonical) {
    throw new ChannelNameError(`channel must not begin or end with white space, got ${show(name)}`);
  }
  if (FORBIDDEN.test(canonical)) {
    throw new ChannelNameError(`channel must not hold "{", "}" or control characters, got ${show(name)}`);
  }
  return canonical;
}

function tooLong(name: string): ChannelNameError {
  return new ChannelNameError(`channel must be at most ${CHANNEL_NAME_MAX_BYTES} UTF-8 bytes, got ${show(name)}`);
}

/** A value as a short, log-safe text: JSON with non-ASCII controls escaped, cut at 60 characters. */
export function show(value: unknown): string {
  let text: string;
  try {
    text = typeof value === 'bigint' ? `${value}n` : (JSON.stringify(value) ?? String(value));
  } catch {
    text = Object.prototype.toString.call(value);
  }
  return text.length > 60 ? `${text.slice(0, 60).toWellFormed()}…` : text;
}
