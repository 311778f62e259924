import { AsyncLocalStorage } from 'node:async_hooks';
import { afterAll, onTestFinished, type TestContext } from 'vitest';

const atEndOfFile: Array<() => Promise<void>> = [];
/** Of tests that run at the same time, this one's. */
const own = new AsyncLocalStorage<TestContext>();

afterAll(async () => {
  for (const release of atEndOfFile.splice(0).reverse()) await release();
});

/**
 * Has `release` called when the test that runs now has finished, or at the end of the file for what `beforeAll` opened.
 * Releasers run in reverse, and may be called a second time by the test itself: they must not mind.
 */
export function releaseAtEnd(release: () => Promise<void>): void {
  const context = own.getStore();
  if (context !== undefined) {
    context.onTestFinished(release);
    return;
  }
  try {
    onTestFinished(release);
  } catch {
    // There is no test at the moment.
    atEndOfFile.push(release);
  }
}

/** Whatever `run` opens by and by is released when the test of this context has finished, whichever others run meanwhile. */
export function releasingIn<T>(context: TestContext, run: () => T): T {
  return own.run(context, run);
}
