import { ChannelTimeoutError } from './errors.js';

/** Longest delay of `setTimeout`; a longer one fires at once. */
const TIMER_MOST_MS = 2 ** 31 - 1;

/** What a guarded function is handed. */
export type GuardedCall = {
  /** Aborted when the guard's `timeout` is over, with the error that the caller gets. Made when it is asked for. */
  readonly signal: AbortSignal;
};

/** Most calls never look at their signal, and one costs more than all the rest of a guarded call: so it is made on demand. */
export class Call implements GuardedCall {
  #controller: AbortController | undefined;
  #reason: unknown;

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    return this.#controller.signal;
  }

  abort(reason: unknown): void {
    this.#reason = reason;
    this.#controller?.abort(reason);
  }
}

/**
 * Runs `fn` for at most so long; then its signal is aborted, and what becomes of it no longer matters.
 *
 * @throws {ChannelTimeoutError} it took longer; or what `fn` throws
 */
export function withinTimeout<T>(
  channel: string,
  fn: (call: GuardedCall) => T,
  timeoutMs: number,
): Promise<Awaited<T>> {
  return new Promise((resolve, reject) => {
    const call = new Call();
    let lastLook: NodeJS.Immediate | undefined;
    const expire = () => {
      const error = new ChannelTimeoutError(channel, timeoutMs);
      reject(error);
      call.abort(error);
    };
    // A loop that was itself late finds the timer due before it has looked at the socket, where the answer may lie: it looks once more.
    const timer = setTimeout(
      () => {
        lastLook = setImmediate(expire);
      },
      Math.min(timeoutMs, TIMER_MOST_MS),
    );
    const stop = () => {
      clearTimeout(timer);
      clearImmediate(lastLook);
    };
    start(fn, call).then(
      (result) => {
        stop();
        resolve(result);
      },
      (error: unknown) => {
        stop();
        reject(error);
      },
    );
  });
}

/** Turns what `fn` throws at once into a rejection. */
async function start<T>(fn: (call: GuardedCall) => T, call: GuardedCall): Promise<Awaited<T>> {
  return await fn(call);
}
