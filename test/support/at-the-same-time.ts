import { it as plainIt } from 'vitest';
import { releasingIn } from './releasers.js';

type Declare = (name: string, test: () => Promise<void>, timeoutMs?: number) => void;

/**
 * In the place of vitest's, for files whose tests mostly wait and share nothing but servers: five of them run at the same time.
 * `it.sequential` is for those in a `describe.concurrent` that run one after the other, beside the rest of the file.
 */
export const it: Declare & { sequential: Declare } = Object.assign(
  ((name, test, timeoutMs) => {
    plainIt.concurrent(name, (context) => releasingIn(context, test), timeoutMs);
  }) satisfies Declare,
  {
    sequential: ((name, test, timeoutMs) => {
      plainIt.sequential(name, (context) => releasingIn(context, test), timeoutMs);
    }) satisfies Declare,
  },
);
