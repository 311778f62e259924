import { afterAll, onTestFinished } from 'vitest';

const atEndOfFile: Array<() => Promise<void>> = [];

afterAll(async () => {
  for (const release of atEndOfFile.splice(0).reverse()) await release();
});

/**
 * Has `release` called when the test that runs now has finished, or at the end of the file for what `beforeAll` opened.
 * Releasers run in reverse, and may be called a second time by the test itself: they must not mind.
 */
export function releaseAtEnd(release: () => Promise<void>): void {
  try {
    onTestFinished(release);
  } catch {
    // There is no test at the moment.
    atEndOfFile.push(release);
  }
}
