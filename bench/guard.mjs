// What the classic breaker costs: `guard` round an async function on a healthy channel, every outcome published to Redis, beside
// cockatiel's circuit breaker, which keeps its counts to itself.

import { CountBreaker, circuitBreaker, handleAll } from 'cockatiel';
import { createAdmit } from '../dist/src/guard/admit.js';
import { createGuard } from '../dist/src/guard/guard.js';
import { createPublisher } from '../dist/src/publisher/index.js';
import { createReader } from '../dist/src/reader/index.js';
import { alternate, ratios, spread, whole } from './figures.mjs';

const ROUNDS = 9;
const CALLS = 200_000;
/** Calls under way at any time, as in a service; each callers' loop awaits its own. */
const IN_FLIGHT = 64;
/** Calls that one caller makes in a row before it lets the event loop turn, as it must for anything to be sent. */
const BURST = 16;
/** No more wait in the publisher: what it drops would cost nothing. */
const WAITING_MOST = 5_000;

/** @returns {Promise<boolean>} whether the promise was kept */
export async function guard(url) {
  const prefix = 'bench:guard:';
  const channel = 'ALIPAY';
  const publisher = createPublisher({ url, prefix, source: 'checkout@web-1' });
  const reader = createReader({ url, prefix, channels: [channel] });
  await reader.ready;
  const publish = (outcome, nowMs) => publisher.publishAt(outcome, nowMs);
  const guarded = createGuard({ admit: createAdmit(reader), publish, stateOf: reader.stateOf });
  const breaker = circuitBreaker(handleAll, {
    halfOpenAfter: 30_000,
    breaker: new CountBreaker({ threshold: 0.3, size: 10 }),
  });
  const answer = { code: 'OK' };
  const call = async () => answer;
  const how = { success: ({ code }) => code === 'OK' };

  const mine = 'guard, published';
  const other = 'cockatiel, execute';
  const figures = await alternate(
    {
      [mine]: async () => {
        const startedAt = performance.now();
        await callers(
          () => guarded(channel, call, how),
          () => publisher.counts().buffered > WAITING_MOST && publisher.flush(),
        );
        // Not over before Redis has all of it.
        await publisher.flush();
        return rate(startedAt);
      },
      [other]: async () => {
        const startedAt = performance.now();
        await callers(() => breaker.execute(call));
        return rate(startedAt);
      },
    },
    ROUNDS,
  );
  const { published, sent, dropped } = publisher.counts();
  if (published !== sent || sent !== (ROUNDS + 1) * CALLS) throw new Error(`sent ${sent}: ${JSON.stringify(dropped)}`);
  await publisher.close();
  await reader.close();

  console.log(
    `guard: ${whole(CALLS)} calls of an async function a round, ${IN_FLIGHT} under way; median of ${ROUNDS} rounds`,
  );
  for (const [name, values] of Object.entries(figures)) {
    const { min, median, max } = spread(values);
    console.log(`  ${name.padEnd(46)} ${whole(median).padStart(10)} calls/s  (${whole(min)} to ${whole(max)})`);
  }
  const { min, median, max } = spread(ratios(figures, mine, other));
  const kept = median >= 1;
  console.log(
    `  ${kept ? 'ok  ' : 'FAIL'} ${mine} / ${other}: ${median.toFixed(2)} (${min.toFixed(2)} to ${max.toFixed(2)}), wanted 1`,
  );
  return kept;
}

const rate = (startedAt) => CALLS / ((performance.now() - startedAt) / 1_000);

async function callers(call, pause = () => {}) {
  let left = CALLS;
  await Promise.all(
    Array.from({ length: IN_FLIGHT }, async () => {
      while (left > 0) {
        for (let i = 0; i < BURST && left > 0; i += 1) {
          left -= 1;
          await call();
        }
        await new Promise(setImmediate);
        await pause();
      }
    }),
  );
}
