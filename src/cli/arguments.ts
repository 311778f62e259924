import { hostname, userInfo } from 'node:os';
import { ChannelNameError, canonicalChannel, show } from '../domain/channel-name.js';
import { DURATION_RULE, parseDuration } from '../domain/duration.js';
import { usage } from './failure.js';

/** @throws {CliError} no channel can be named so */
export function channelArgument(text: string): string {
  try {
    return canonicalChannel(text);
  } catch (error) {
    if (error instanceof ChannelNameError) usage(error.message);
    throw error;
  }
}

/** Milliseconds, more than 0. @throws {CliError} */
export function durationArgument(flag: string, text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined || ms === 0) usage(`${flag} must be ${DURATION_RULE}, more than 0, got ${show(text)}`);
  return ms;
}

/** A whole number, 0 or more. @throws {CliError} */
export function wholeArgument(flag: string, text: string): number {
  if (!/^\d{1,15}$/.test(text)) usage(`${flag} must be a whole number, got ${show(text)}`);
  return Number(text);
}

const TEXT_MOST = 200;

/** A text that is stored and shown to people. @throws {CliError} */
export function textArgument(flag: string, text: string): string {
  const trimmed = text.trim().normalize('NFC');
  if (trimmed.length === 0 || trimmed.length > TEXT_MOST)
    usage(`${flag} must have 1 to ${TEXT_MOST} characters, got ${trimmed.length}`);
  if (/\p{Cc}/u.test(trimmed)) usage(`${flag} must not hold control characters, got ${show(trimmed)}`);
  if (!trimmed.isWellFormed()) usage(`${flag} must not hold lone surrogates`);
  return trimmed;
}

/** Who does it, if nobody says otherwise: `user@host`. */
export function defaultActor(): string {
  let user = 'unknown';
  try {
    user = userInfo().username;
  } catch {
    // A container may run under a number that has no name.
  }
  return `${user}@${hostname()}`.slice(0, TEXT_MOST);
}
