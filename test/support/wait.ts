import { inspect } from 'node:util';

export type UntilOptions<T> = {
  /** Completes the sentence "waited for …". */
  what: string;
  timeoutMs?: number;
  intervalMs?: number;
  /** Default: the value is truthy. */
  accept?: (value: T) => boolean;
};

/**
 * Asks `fn` again and again until it gives an acceptable value, and resolves to that value. An error of `fn` counts as
 * "not yet". Rejects with what it waited for and the last value or error seen.
 */
export async function until<T>(
  fn: () => T | Promise<T>,
  { what, timeoutMs = 10_000, intervalMs = 20, accept = Boolean }: UntilOptions<Awaited<T>>,
): Promise<NonNullable<Awaited<T>>> {
  const startedAt = performance.now();
  let last = 'nothing, it never answered';
  let cause: unknown;
  for (;;) {
    const left = timeoutMs - (performance.now() - startedAt);
    if (left <= 0) throw new Error(`waited ${timeoutMs} ms for ${what}; last seen: ${last}`, { cause });
    try {
      const value = await withDeadline(Promise.resolve().then(fn), left);
      if (value === tooLate) continue;
      if (accept(value)) return value as NonNullable<Awaited<T>>;
      last = inspect(value, { depth: 4, breakLength: 120 }).slice(0, 1_000);
      cause = undefined;
    } catch (error) {
      last = error instanceof Error ? `error "${error.message}"` : inspect(error);
      cause = error;
    }
    await sleep(intervalMs);
  }
}

const tooLate = Symbol('too late');

async function withDeadline<T>(promise: Promise<T>, deadlineMs: number): Promise<Awaited<T> | typeof tooLate> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<typeof tooLate>((resolve) => {
    timer = setTimeout(() => resolve(tooLate), deadlineMs);
  });
  try {
    return await Promise.race([promise, deadline]);
  } finally {
    clearTimeout(timer);
  }
}

/** For the rhythm of a load or of a peer; a test that waits for a state uses {@link until}. */
export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
