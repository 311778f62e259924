import { AsyncLocalStorage } from 'node:async_hooks';
import { afterAll, aroundEach, type TestContext } from 'vitest';

const atEndOfFile: Array<() => Promise<void>> = [];
/** Of the tests that run now, several in `it.concurrent`, the one that asks. Vitest's own hook would take the one begun last. */
const ofTest = new AsyncLocalStorage<TestContext>();

aroundEach((runTest, context) => ofTest.run(context, runTest));
afterAll(async () => {
  for (const release of atEndOfFile.splice(0).reverse()) await release();
});

/**
 * Has `release` called when the test that asks has finished, or at the end of the file for what `beforeAll` opened.
 * Releasers run in reverse, and may be called a second time by the test itself: they must not mind.
 */
export function releaseAtEnd(release: () => Promise<void>): void {
  const context = ofTest.getStore();
  if (context) context.onTestFinished(release);
  else atEndOfFile.push(release);
}
