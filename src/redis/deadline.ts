/**
 * A call that gave no answer in time. It means "unknown", not "not done": Redis may still run it, so whoever repeats it must be
 * idempotent.
 */
export class DeadlineError extends Error {
  override readonly name = 'DeadlineError';
}

/**
 * Settles as `promise` does, or rejects after `ms`. The call itself goes on; its late failure is swallowed, not unhandled.
 *
 * @throws {DeadlineError} no answer within `ms`; the message names `what`
 */
export function withDeadline<T>(promise: PromiseLike<T>, ms: number, what: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new DeadlineError(`no answer to ${what} within ${ms} ms`)), ms);
    promise.then(
      (value) => {
        clearTimeout(timer);
        resolve(value);
      },
      (error: unknown) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}

/** Only `WRONGTYPE` is something that repeating cannot cure; every other error is an outage. Codes are contained, not equal. */
export function isIncurable(error: unknown): boolean {
  return error instanceof Error && error.message.includes('WRONGTYPE');
}

/** Waits `ms`, or until the signal: never rejects, so loops can test the signal themselves. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener('abort', done, { once: true });
  });
}

/** Back-off with full jitter on the upper half: attempt 0 waits `firstMs` at most, then doubles up to `mostMs`. */
export function backoffMs(attempt: number, firstMs = 50, mostMs = 5_000): number {
  const ceiling = Math.min(mostMs, firstMs * 2 ** Math.min(attempt, 30));
  return ceiling / 2 + Math.random() * (ceiling / 2);
}
