// What the classic breaker costs: `guard` round an async function on a healthy channel, every outcome published to Redis, beside
// cockatiel's circuit breaker, which keeps its counts to itself.

import { CountBreaker, circuitBreaker, handleAll } from 'cockatiel';
import { createAdmit } from '../dist/src/guard/admit.js';
import { createGuard } from '../dist/src/guard/guard.js';
import { createPublisher } from '../dist/src/publisher/index.js';
import { createReader } from '../dist/src/reader/index.js';
import { alternate, ratios, spread, whole } from './figures.mjs';

const ROUNDS = 9;
const CHANNEL = 'ALIPAY';
const ANSWER = { code: 'OK' };
/** Medians of equal contenders differ by so much. */
const NOISE = 0.02;
/** No more wait in the publisher: what it drops would cost nothing. */
const WAITING_MOST = 5_000;

/** An answer after 5 ms is quick for a third party. 64 calls under way: more than 10,000 a second. */
const ANSWERS = {
  name: 'a call that is answered after 5 ms',
  calls: 10_000,
  inFlight: 64,
  burst: 1,
  call: () => new Promise((resolve) => setTimeout(resolve, 5, ANSWER)),
};
/** Nothing but the breakers themselves. The event loop has to turn now and then, or nothing would be sent. */
const RETURNS = {
  name: 'a function that does nothing',
  calls: 100_000,
  inFlight: 64,
  burst: 16,
  call: async () => ANSWER,
};

/** @returns {Promise<boolean>} whether the promise was kept */
export async function guard(url) {
  const prefix = 'bench:guard:';
  const publisher = createPublisher({ url, prefix, source: 'checkout@web-1' });
  const reader = createReader({ url, prefix, channels: [CHANNEL] });
  await reader.ready;
  const publish = (outcome, nowMs) => publisher.publishAt(outcome, nowMs);
  const guarded = createGuard({ admit: createAdmit(reader), publish, stateOf: reader.stateOf });
  const breaker = circuitBreaker(handleAll, {
    halfOpenAfter: 30_000,
    breaker: new CountBreaker({ threshold: 0.3, size: 10 }),
  });

  console.log(
    `guard: beside cockatiel ${'`execute`'}, all outcomes in Redis before the clock stops; median of ${ROUNDS} rounds`,
  );
  const answers = await compare(ANSWERS, guarded, breaker, publisher);
  const returns = await compare(RETURNS, guarded, breaker, publisher);
  const { published, sent, dropped } = publisher.counts();
  if (sent !== (ROUNDS + 1) * (ANSWERS.calls + RETURNS.calls))
    throw new Error(`sent ${sent} of ${published} outcomes: ${JSON.stringify(dropped)}`);
  await publisher.close();
  await reader.close();

  const kept = answers >= 1 - NOISE;
  console.log(
    `  ${kept ? 'ok  ' : 'FAIL'} ${ANSWERS.name}: ${answers.toFixed(2)} of cockatiel's rate, wanted 1 (less ${NOISE} of noise)`,
  );
  console.log(
    `       ${RETURNS.name}: ${returns.toFixed(2)}, no promise: measuring and sending cost more than counting`,
  );
  return kept;
}

async function compare({ name, calls, inFlight, burst, call }, guarded, breaker, publisher) {
  const how = { success: ({ code }) => code === 'OK' };
  const round = async (one, relief = () => {}) => {
    const startedAt = performance.now();
    await callers({ calls, inFlight, burst }, one, relief);
    return { startedAt };
  };
  const rate = ({ startedAt }) => calls / ((performance.now() - startedAt) / 1_000);
  const drain = () => publisher.counts().buffered > WAITING_MOST && publisher.flush();
  const mine = `guard, ${name}`;
  const other = `cockatiel, ${name}`;
  const figures = await alternate(
    {
      [mine]: async () => {
        const begun = await round(() => guarded(CHANNEL, call, how), drain);
        await publisher.flush();
        return rate(begun);
      },
      [other]: async () => rate(await round(() => breaker.execute(call))),
    },
    ROUNDS,
  );
  for (const [line, values] of Object.entries(figures)) {
    const { min, median, max } = spread(values);
    console.log(`  ${line.padEnd(46)} ${whole(median).padStart(10)} calls/s  (${whole(min)} to ${whole(max)})`);
  }
  return spread(ratios(figures, mine, other)).median;
}

/** So many callers, each awaiting its own calls one after the other, in bursts after which the event loop turns. */
async function callers({ calls, inFlight, burst }, one, relief) {
  let left = calls;
  await Promise.all(
    Array.from({ length: inFlight }, async () => {
      while (left > 0) {
        for (let i = 0; i < burst && left > 0; i += 1) {
          left -= 1;
          await one();
        }
        if (burst > 1) await new Promise(setImmediate);
        await relief();
      }
    }),
  );
}
