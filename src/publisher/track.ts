import { show } from '../domain/channel-name.js';
import { CLIENT_CANCELLED, TIMEOUT } from '../domain/ignored-codes.js';
import { DURATION_MAX_MS, type OutcomeInput, RETRY_AFTER_MAX_MS } from '../domain/outcome.js';

/** How a call ended: with a result, or with an error. Both may be asked for, as in `({ result, error }) => …`; one of them is absent. */
export type CallEnd<Result> = { result: Result; error?: undefined } | { result?: undefined; error: unknown };

export type TrackOptions<Result> = {
  /**
   * Whether a call that came back was good. Required, because many third parties fail with HTTP 200 and a code in the body. Whoever
   * really means "it did not throw" says {@link didNotThrow}. When it throws itself, the call counts as a failure with the code
   * `SUCCESS_CHECK_THREW` (an answer that one cannot even read is rarely a good one); the caller gets the answer all the same.
   */
  success: (result: Result) => boolean;
  /** The third party's own code. Not asked for aborts and timeouts, which have theirs; default: the error's `code` or name. */
  code?: (end: CallEnd<Result>) => string | undefined;
  /** How long the third party asked to wait, in ms, such as the `Retry-After` of a 429. What is no number above 0 says nothing. */
  retryAfterMs?: (end: CallEnd<Result>) => number | undefined;
  source?: string;
  /** What `admit` gave for this call: given back when the call is over, however it ended. */
  admission?: { release(isGood?: boolean): void };
};

/** Is handed the time of the call's end too, `performance.now()`. */
export type Publish = (outcome: OutcomeInput, nowMs: number) => void;

/** For calls whose only way to fail is to throw. */
export const didNotThrow = (): true => true;

/** The code of a call whose `success` callback threw. */
export const SUCCESS_CHECK_THREW = 'SUCCESS_CHECK_THREW';

/**
 * Runs `fn`, publishes how it ended, and gives back its result or throws its error, untouched. Works with functions that return a value,
 * a promise or any thenable (asked once only, since some run again for each `then`; what comes back for one is a promise).
 *
 * An `AbortError` counts with the code `CLIENT_CANCELLED`, which is ignored by default; a `TimeoutError`, also as the cause of an abort,
 * counts with `TIMEOUT`. A `ChannelBlockedError` of a guard within counts as nothing: nobody was called.
 *
 * @throws {TypeError} no function to call, or no `success`; nothing was called. Else what `fn` throws.
 *
 * Inside a retry (`retry(() => track(…))`) every attempt counts, so a channel is blocked sooner: three attempts of one call are
 * three failures. Outside (`track(channel, () => retry(…), …)`) every business call counts, and an attempt that a retry healed
 * does not count at all. Prefer inside, if the retries go to the same channel.
 */
export function track<T>(publish: Publish, channel: string, fn: () => T, options: TrackOptions<Awaited<T>>): T {
  if (!isCall(fn, options)) throw callError('track', fn);
  const startedAt = performance.now();
  const returned = (result: Awaited<T>) => {
    const isGood = tellResult(publish, channel, options, startedAt, result);
    options.admission?.release(isGood);
  };
  const threw = (error: unknown) => {
    const isGood = tellThrown(publish, channel, options, startedAt, error);
    options.admission?.release(isGood);
  };

  let result: T;
  try {
    result = fn();
  } catch (error) {
    threw(error);
    throw error;
  }
  if (!isThenable(result)) {
    returned(result as Awaited<T>);
    return result;
  }
  const settled = new Promise<Awaited<T>>((resolve, reject) => {
    (result as PromiseLike<Awaited<T>>).then(resolve, reject);
  });
  const told = settled.then(
    (value) => {
      returned(value);
      return value;
    },
    (error: unknown) => {
      threw(error);
      throw error;
    },
  );
  return told as T;
}

/** Whether there is something to call, and to tell by whether it was good: programs in JavaScript may give neither. */
export function isCall(fn: unknown, options: { readonly success?: unknown } | undefined): boolean {
  return typeof fn === 'function' && typeof options?.success === 'function';
}

export function callError(name: string, fn: unknown): TypeError {
  if (typeof fn !== 'function') return new TypeError(`${name} wants a function to call, got ${show(fn)}`);
  return new TypeError(
    `${name} wants options.success, a function that says whether an answer was good; didNotThrow is one`,
  );
}

type Telling<Result> = Pick<TrackOptions<Result>, 'success' | 'code' | 'retryAfterMs' | 'source'>;

/** Publishes how a call that came back ended, and says whether well. `startedAt`: `performance.now()` before it. Never throws. */
export function tellResult<Result>(
  publish: Publish,
  channel: string,
  { success, code, retryAfterMs, source }: Telling<Result>,
  startedAt: number,
  result: Result,
): boolean {
  const { good, why } = judge(result, success);
  const told = why ?? (code && safely(() => code({ result })));
  const endedAt = performance.now();
  const asked = retryAfterMs && waitOf(() => retryAfterMs({ result }));
  const durationMs = lasted(startedAt, endedAt);
  publish({ channel, success: good, durationMs, code: told, retryAfterMs: asked, source }, endedAt);
  return good;
}

/**
 * Publishes how a call that threw ended, and says `false`; nothing for one that a guard within it refused, because nobody was called. Never
 * throws.
 */
export function tellThrown<Result>(
  publish: Publish,
  channel: string,
  { code, retryAfterMs, source }: Telling<Result>,
  startedAt: number,
  error: unknown,
): false | undefined {
  if (read(error, 'name') === 'ChannelBlockedError') return undefined;
  const told = brokenOff(error) ?? (code && safely(() => code({ error }))) ?? codeOf(error);
  const endedAt = performance.now();
  const asked = retryAfterMs && waitOf(() => retryAfterMs({ error }));
  const durationMs = lasted(startedAt, endedAt);
  publish({ channel, success: false, durationMs, code: told, retryAfterMs: asked, source }, endedAt);
  return false;
}

function lasted(startedAt: number, endedAt: number): number {
  return Math.min(DURATION_MAX_MS, Math.round(endedAt - startedAt));
}

/** A header may hold anything: what is no time must not cost the outcome. */
function waitOf(ask: () => unknown): number | undefined {
  const ms = safely(ask);
  return typeof ms === 'number' && ms > 0 ? Math.min(RETRY_AFTER_MAX_MS, ms) : undefined;
}

/** Made once: nearly all calls end so. */
const GOOD: { good: boolean; why?: string } = { good: true };

function judge<R>(result: R, success: (result: R) => boolean): { good: boolean; why?: string } {
  try {
    const verdict: unknown = success(result);
    if (verdict === true) return GOOD;
    // A promise is always truthy: an async check would never see a failure.
    if (isThenable(verdict)) {
      verdict.then(undefined, () => {});
      return { good: false, why: SUCCESS_CHECK_THREW };
    }
    return { good: Boolean(verdict) };
  } catch {
    return { good: false, why: SUCCESS_CHECK_THREW };
  }
}

function brokenOff(error: unknown): string | undefined {
  const name = read(error, 'name');
  if (name === 'TimeoutError' || (name === 'AbortError' && read(read(error, 'cause'), 'name') === 'TimeoutError'))
    return TIMEOUT;
  return name === 'AbortError' ? CLIENT_CANCELLED : undefined;
}

function codeOf(error: unknown): string | undefined {
  const code = read(error, 'code');
  if (typeof code === 'string' && code !== '') return code;
  const name = read(error, 'name');
  return typeof name === 'string' && name !== '' ? name : undefined;
}

/** Errors of others may be anything, also with getters that throw. */
function read(value: unknown, key: string): unknown {
  return safely(() => (value as Record<string, unknown> | null | undefined)?.[key]);
}

function safely<T>(fn: () => T): T | undefined {
  try {
    return fn();
  } catch {
    return undefined;
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof read(value, 'then') === 'function';
}
