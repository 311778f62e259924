// How many outcomes a second one worker judges from a filled log, against one script call per outcome.

import { record } from '../dist/src/channel/record.js';
import { evidenceText } from '../dist/src/intake/group.js';
import { createIntake } from '../dist/src/intake/intake.js';
import { Stats } from '../dist/src/intake/stats.js';
import { silent } from '../dist/src/observe/log.js';
import { createMetrics } from '../dist/src/observe/metrics.js';
import { closeRedis, openRedis } from '../dist/src/redis/client.js';
import { Keys } from '../dist/src/redis/keys.js';
import { createRedisStreamReader } from '../dist/src/transport/redis-stream/reader.js';
import { alternate, median, ratios, spread, whole } from './figures.mjs';
import { CHANNELS, entries, FAILURES, outcomes, PER_ENTRY, POLICY } from './load.mjs';

const SHARDS = 4;
const IN_FLIGHT = 64;
const ROUNDS = 5;
const FRESH_FOR_MS = 300_000;

/** What people write today: a list, a count, a block key. The leanest form of it, one call per outcome. */
const SCRIPT_OF_TODAY = `
local health, blocked = KEYS[1], KEYS[2]
local success, size, threshold, seconds = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('LPUSH', health, success)
redis.call('LTRIM', health, 0, size - 1)
local window = redis.call('LRANGE', health, 0, -1)
local good = size - #window
for _, one in ipairs(window) do
  if one == '1' then good = good + 1 end
end
if good * 100 < threshold * size then
  redis.call('SET', blocked, '1', 'EX', seconds)
  redis.call('DEL', health)
  return 1
end
return 0`;

let run = 0;
const nextPrefix = () => {
  run += 1;
  return `bench:${run}:`;
};

/** @returns {Promise<boolean>} whether every promise was kept */
export async function throughput(url, { logOutcomes = 1_000_000, callOutcomes = 60_000, rounds = ROUNDS } = {}) {
  const client = openRedis(url, 'commands');
  await client.ping().catch(() => new Promise((resolve) => client.once('ready', resolve)));
  const all = outcomes(logOutcomes);
  const packed = entries(all, SHARDS);
  const few = all.slice(0, callOutcomes);
  const bytes = median(packed.map(([, json]) => Buffer.byteLength(json)));

  console.log(
    `throughput: ${CHANNELS.length} channels, ${FAILURES * 100} % failures, ${whole(logOutcomes)} outcomes in ${whole(packed.length)} ` +
      `entries of ${PER_ENTRY} (${whole(bytes)} bytes) over ${SHARDS} shards; calls: ${IN_FLIGHT} in flight; median of ${rounds} rounds`,
  );
  const small = 'worker, 20 entries = 2,000 outcomes a read';
  const large = 'worker, up to 2,000 entries a read (default)';
  const perOutcome = 'record.lua, one call per outcome';
  const today = 'script of today, one call per outcome';
  const figures = await alternate(
    {
      [small]: () => worker(client, url, packed, logOutcomes, 20),
      [perOutcome]: () => oneCallEach(client, few),
      [large]: () => worker(client, url, packed, logOutcomes, 2_000),
      [today]: () => scriptOfToday(client, few),
    },
    rounds,
  );
  for (const [name, values] of Object.entries(figures)) {
    const { min, median: middle, max } = spread(values);
    console.log(`  ${name.padEnd(46)} ${whole(middle).padStart(10)} outcomes/s  (${whole(min)} to ${whole(max)})`);
  }
  const kept = [
    promise(figures, small, perOutcome, 5),
    promise(figures, small, today, 3),
    promise(figures, large, perOutcome, 5),
    promise(figures, large, today, 3),
  ];
  await closeRedis(client);
  return kept.every(Boolean);
}

function promise(figures, one, other, least) {
  const { min, median: middle, max } = spread(ratios(figures, one, other));
  const kept = middle >= least;
  console.log(
    `  ${kept ? 'ok  ' : 'FAIL'} ${one} / ${other}: ${middle.toFixed(1)} times (${min.toFixed(1)} to ${max.toFixed(1)}), wanted ${least}`,
  );
  return kept;
}

/** The outcome worker's own flow in this process, on a log that is full when the clock starts, until the last entry is committed. */
async function worker(client, url, packed, count, maxCount) {
  const keys = new Keys(nextPrefix());
  for (let from = 0; from < packed.length; from += 1_000) {
    const pipeline = client.pipeline();
    for (const [shard, json] of packed.slice(from, from + 1_000)) {
      pipeline.xadd(keys.outcomes(shard), '*', 'v', 1, 'outcomes', json);
    }
    await pipeline.exec();
  }
  const metrics = createMetrics();
  const reader = createRedisStreamReader({
    client,
    openClient: () => openRedis(url, 'blocking'),
    keys,
    worker: `bench-${run}`,
    shards: SHARDS,
    maxCount,
  });
  let startedAt;
  const timed = {
    ...reader,
    deadLetter: reader.deadLetter.bind(reader),
    progress: reader.progress.bind(reader),
    run: (handler, signal) =>
      reader.run((batch, stop) => {
        startedAt ??= performance.now();
        return handler(batch, stop);
      }, signal),
  };
  const intake = createIntake({
    client,
    keys,
    reader: timed,
    rules: { policyFor: () => POLICY },
    announcer: {
      mark: () => Promise.reject(new Error('a channel moved: this load must block nothing')),
      announce: () => Promise.resolve(true),
    },
    stats: new Stats(),
    freshForMs: FRESH_FOR_MS,
    logClockLeadMs: 0,
    maxChannels: 10_000,
    log: silent,
    count: metrics.count,
  });
  const stop = new AbortController();
  const running = intake.run(stop.signal);
  await untilCommitted(reader, packed.length);
  const seconds = (performance.now() - startedAt) / 1_000;
  stop.abort();
  await running;
  await assertJudged(metrics, count);
  await removeAll(client, keys);
  return count / seconds;
}

async function untilCommitted(reader, wanted) {
  while ((reader.progress().counters.entries_read ?? 0) < wanted)
    await new Promise((resolve) => setTimeout(resolve, 1));
}

/** A figure counts only if every outcome was judged: none lost, none late, stale or a dead letter. */
async function assertJudged(metrics, count) {
  const { values } = await metrics.registry.getSingleMetric('fuseline_outcomes_total').get();
  const of = (name) => values.find(({ labels }) => labels.disposition === name)?.value ?? 0;
  if (of('counted') !== count)
    throw new Error(`judged ${of('counted')} of ${count} outcomes: ${JSON.stringify(values)}`);
}

/** The same script as the worker's, but called for each outcome as it comes. */
async function oneCallEach(client, all) {
  const keys = new Keys(nextPrefix());
  const partition = 'direct/bench';
  const rate = await inFlight(all, ({ channel, success, durationMs, agoMs, ...rest }, i) =>
    record(client, keys, channel, POLICY, FRESH_FOR_MS, {
      partition,
      results: success ? '1' : '0',
      entries: [[String(i + 1), Date.now(), 1]],
      times: [agoMs, durationMs],
      evidence: success ? [] : [evidenceText({ durationMs, ...rest }, Date.now())],
    }),
  );
  await removeAll(client, keys);
  return rate;
}

async function scriptOfToday(client, all) {
  const keys = new Keys(nextPrefix());
  const sha = await client.script('LOAD', SCRIPT_OF_TODAY);
  const { window, successRate, block } = POLICY;
  const rate = await inFlight(all, ({ channel, success }) => {
    const [health, blocked] = [`${keys.prefix}channel_health:{${channel}}`, keys.blocked(channel)];
    const args = [success ? '1' : '0', window.size, successRate / 100, block.forMs / 1_000];
    return client.evalsha(sha, 2, health, blocked, ...args);
  });
  await removeAll(client, keys);
  return rate;
}

/** @returns {Promise<number>} outcomes a second with so many calls under way at any time */
async function inFlight(all, call) {
  let next = 0;
  const startedAt = performance.now();
  await Promise.all(
    Array.from({ length: IN_FLIGHT }, async () => {
      while (next < all.length) {
        const i = next++;
        await call(all[i], i);
      }
    }),
  );
  return all.length / ((performance.now() - startedAt) / 1_000);
}

/** Only what this run made: the server may be somebody's own. */
async function removeAll(client, keys) {
  for await (const found of client.scanStream({ match: `${keys.prefix}*`, count: 1_000 })) {
    if (found.length > 0) await client.unlink(...found);
  }
}
