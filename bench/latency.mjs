// From the deciding failure to the verdict in another process, and from the end of a block to the message about it: between real
// processes, through every part of the way.

import { once } from 'node:events';
import { createServer } from 'node:http';
import { cpus, loadavg } from 'node:os';
import { createPublisher } from '../dist/src/publisher/index.js';
import { closeRedis, openRedis, whenReady } from '../dist/src/redis/client.js';
import { Keys } from '../dist/src/redis/keys.js';
import { setRules } from '../dist/src/rules/store.js';
import { quantile, spread } from './figures.mjs';
import { startReader, startRole } from './processes.mjs';

const ROUNDS = 200;
const BLOCKS = 100;
const VERDICT_MS = 50;
const MESSAGE_MS = 1_000;
const GIVE_UP_MS = 20_000;
const PREFIX = 'bench:latency:';

/** @returns {Promise<boolean>} whether every promise was kept */
export async function latency(url) {
  const [load = 0] = loadavg();
  const busy = load > cpus().length / 2 ? `; NOT IDLE: the limits are meant for an idle machine` : '';
  console.log(
    `latency between processes: publisher, reader and three workers; load average before ${load.toFixed(1)}${busy}`,
  );
  const receiver = await startReceiver();
  const client = openRedis(url, 'commands');
  await whenReady(client);
  const keys = new Keys(PREFIX);
  await setRules({ client, keys }, { expectedVersion: 0, actor: 'bench', document: rules(receiver.url) });
  const env = { FUSELINE_REDIS_URL: url, FUSELINE_PREFIX: PREFIX, FUSELINE_ALLOW_PRIVATE_RECEIVERS: 'true' };
  const publisher = createPublisher({ url, prefix: PREFIX });
  const stops = [];
  try {
    stops.push(await startRole('outcomes', env));
    const reader = await startReader(url, PREFIX);
    stops.push(reader.stop);
    const verdicts = await untilVerdict({ client, keys, publisher, reader });
    for (const role of ['recovery', 'alerts']) stops.push(await startRole(role, env));
    const messages = await untilMessage({ publisher, receiver });
    return [
      report(
        `publish of the deciding failure → isBlocked() in another process, ${ROUNDS} channels`,
        verdicts,
        VERDICT_MS,
      ),
      report(`the same → the message "blocked" at a local webhook, ${BLOCKS} channels`, messages.blocked),
      report(
        `end of a block of 1 s → the message "recovered" at a local webhook, ${BLOCKS} blocks`,
        messages.recovered,
        MESSAGE_MS,
      ),
    ].every(Boolean);
  } finally {
    await Promise.all(stops.map((stop) => stop()));
    await publisher.close();
    await closeRedis(client);
    receiver.stop();
  }
}

const rules = (url) => ({
  version: 1,
  mode: 'on',
  defaults: { window: 10, successRate: 70, block: '30m', hold: '30m' },
  channels: { 'short-*': { block: '1s', group: 'short' } },
  groups: { short: { minVisible: 0 } },
  receivers: { hook: { type: 'webhook', url } },
  routes: [{ match: { group: 'short' }, to: ['hook'] }],
});

/** Window 10, threshold 70 %: three failures are borne, the fourth decides. One fresh channel a round. */
async function untilVerdict({ client, keys, publisher, reader }) {
  const figures = [];
  for (let round = 0; round <= ROUNDS; round += 1) {
    const channel = `latency-${round}`;
    await reader.watch(channel);
    for (let i = 0; i < 3; i += 1) publisher.publish({ channel, success: false, code: 'TIMEOUT' });
    const [health] = keys.channel(channel);
    await until(async () => (await client.llen(health)) === 3, `three failures of ${channel} in its window`);
    // In step with none of the timers on the way.
    await pause(Math.random() * 20);
    const blocked = reader.blocked(channel);
    const publishedAt = process.hrtime.bigint();
    publisher.publish({ channel, success: false, code: 'TIMEOUT' });
    const answeredAt = await within(blocked, `the verdict about ${channel}`);
    // The first round warms up.
    if (round > 0) figures.push(Number(answeredAt - publishedAt) / 1e6);
  }
  return figures;
}

async function untilMessage({ publisher, receiver }) {
  const published = new Map();
  const of = (type) => receiver.messages.filter((message) => message.type === type && published.has(message.channel));
  const fail = (channel) => {
    for (let i = 0; i < 4; i += 1) publisher.publish({ channel, success: false, code: 'TIMEOUT' });
  };
  // One block to warm up: connections of all queues and of the receiver.
  fail('short-warm');
  await until(() => receiver.messages.some(({ type }) => type === 'channel.recovered'), 'the first recovery');
  for (let round = 0; round < BLOCKS; round += 1) {
    const channel = `short-${round}`;
    published.set(channel, Date.now());
    fail(channel);
    await pause(100 + Math.random() * 100);
  }
  await until(() => of('channel.recovered').length === BLOCKS, `${BLOCKS} messages about recoveries`);
  return {
    blocked: of('channel.blocked').map(({ channel, atMs }) => atMs - published.get(channel)),
    // Redis's clock wrote `at`, ours `atMs`: one machine, one clock.
    recovered: of('channel.recovered').map(({ at, atMs }) => atMs - Date.parse(at)),
  };
}

function report(what, figures, most) {
  const { min, median, max } = spread(figures);
  const p99 = quantile(figures, 0.99);
  const kept = most === undefined || p99 <= most;
  const ms = (n) => `${n.toFixed(1)} ms`;
  const mark = most === undefined ? '    ' : kept ? 'ok  ' : 'FAIL';
  console.log(`  ${mark} ${what}`);
  const wanted = most === undefined ? '' : `, wanted p99 of ${most} ms at most`;
  console.log(`       min ${ms(min)}, median ${ms(median)}, p99 ${ms(p99)}, max ${ms(max)}${wanted}`);
  return kept;
}

async function startReceiver() {
  const messages = [];
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    messages.push({ ...JSON.parse(Buffer.concat(chunks).toString()), atMs: Date.now() });
    response.end('ok');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const stop = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${server.address().port}/`, messages, stop };
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(holds, what) {
  const end = performance.now() + GIVE_UP_MS;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`waited ${GIVE_UP_MS} ms for ${what}`);
    await pause(2);
  }
}

async function within(promise, what) {
  let timer;
  const late = new Promise((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${GIVE_UP_MS} ms for ${what}`)), GIVE_UP_MS);
  });
  return await Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
