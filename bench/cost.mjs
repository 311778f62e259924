// What a service pays in its own thread: for publishing an outcome, and for asking for a verdict. And what each kind of window costs Redis.

import { createPublisher } from '../dist/src/publisher/index.js';
import { createReader } from '../dist/src/reader/index.js';
import { closeRedis, openRedis, whenReady } from '../dist/src/redis/client.js';
import { costOfKinds } from './cost-of-kinds.mjs';
import { spread, whole } from './figures.mjs';

const ROUNDS = 9;
const CALLS = 200_000;
/** Published at one go; then the buffer may empty, as it does between the requests of a service. */
const BURST = 2_000;
const CHANNELS = Array.from({ length: 20 }, (_, i) => `channel-${i}`);

/**
 * Of the service it says, and promises nothing: what counts as dear is for the service to judge.
 *
 * @returns {Promise<boolean>} whether a plain channel costs Redis what it did before there were other kinds of windows
 */
export async function cost(url) {
  const prefix = 'bench:cost:';
  const client = openRedis(url, 'commands');
  await whenReady(client);
  // A block by hand, so that the reader has one channel to hide.
  await client.set(`${prefix}channel_blocked:{${CHANNELS[0]}}`, 'open', 'EX', 600);
  const publisher = createPublisher({ url, prefix, source: 'checkout@web-1' });
  const reader = createReader({ url, prefix, channels: CHANNELS });
  await reader.ready;
  if (!reader.isBlocked(CHANNELS[0])) throw new Error('the reader does not see the block');
  const candidates = CHANNELS.slice(0, 5);
  const empty = () => {};

  console.log(`cost in the service, ns a call: ${whole(CALLS)} calls a round, median of ${ROUNDS} rounds`);
  await line('an empty function', (i) => empty(CHANNELS[i % 20]));
  await line('publish({ channel, success })', (i) => publisher.publish({ channel: CHANNELS[i % 20], success: true }), {
    between: () => publisher.flush(),
  });
  await line(
    'publish with durationMs, code and source',
    (i) =>
      publisher.publish({
        channel: CHANNELS[i % 20],
        success: false,
        durationMs: 120,
        code: 'E42',
        source: 'pay@web-2',
      }),
    { between: () => publisher.flush() },
  );
  await line('isBlocked, one channel again and again', () => reader.isBlocked(CHANNELS[1]));
  await line('isBlocked, 20 channels in turn', (i) => reader.isBlocked(CHANNELS[i % 20]));
  await line('visible of 5, one of them blocked', () => reader.visible(candidates));

  const { dropped, unknown } = publisher.counts();
  if (unknown + Object.values(dropped).reduce((sum, n) => sum + n, 0) > 0) throw new Error('outcomes were lost');
  await publisher.close();
  await reader.close();
  console.log('');
  const isKept = await costOfKinds(client);
  await closeRedis(client);
  return isKept;
}

async function line(name, call, { between } = {}) {
  const figures = [];
  for (let round = 0; round <= ROUNDS; round += 1) {
    const ns = await oneRound(call, between);
    if (round > 0) figures.push(ns);
  }
  const { min, median, max } = spread(figures);
  console.log(`  ${name.padEnd(46)} ${whole(median).padStart(7)} ns  (${whole(min)} to ${whole(max)})`);
}

async function oneRound(call, between) {
  let ns = 0n;
  for (let done = 0; done < CALLS; done += BURST) {
    const startedAt = process.hrtime.bigint();
    for (let i = 0; i < BURST; i += 1) call(i);
    ns += process.hrtime.bigint() - startedAt;
    await between?.();
  }
  return Number(ns) / CALLS;
}
