/**
 * Takes a step again and again until the signal, each time after the wait that the step before asked for. Waiting does not keep the
 * process alive. Steps must not reject. Resolves when no step is running any more.
 */
export async function repeat(step: () => Promise<number>, firstWaitMs: number, signal: AbortSignal): Promise<void> {
  let waitMs = firstWaitMs;
  for (;;) {
    await idle(waitMs, signal);
    if (signal.aborted) return;
    waitMs = await step();
  }
}

function idle(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms).unref();
    signal.addEventListener('abort', done, { once: true });
  });
}
