// Who competes in the throughput benchmark. Each resolves to outcomes a second, and leaves nothing in Redis.

import { record } from '../dist/src/channel/record.js';
import { evidenceText } from '../dist/src/intake/group.js';
import { createIntake } from '../dist/src/intake/intake.js';
import { Stats } from '../dist/src/intake/stats.js';
import { silent } from '../dist/src/observe/log.js';
import { createMetrics } from '../dist/src/observe/metrics.js';
import { openRedis } from '../dist/src/redis/client.js';
import { Keys } from '../dist/src/redis/keys.js';
import { createRedisStreamReader } from '../dist/src/transport/redis-stream/reader.js';
import { POLICY } from './load.mjs';

export const SHARDS = 4;
export const IN_FLIGHT = 64;
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

/** The outcome worker's own flow in this process, on a log that is full when the clock starts, until the last entry is committed. */
export async function worker({ client, url, packed, count, maxCount, onRead = () => {} }) {
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
        onRead(batch.entries.length);
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
export async function assertJudged(metrics, count) {
  const { values } = await metrics.registry.getSingleMetric('fuseline_outcomes_total').get();
  const of = (name) => values.find(({ labels }) => labels.disposition === name)?.value ?? 0;
  if (of('counted') !== count)
    throw new Error(`judged ${of('counted')} of ${count} outcomes: ${JSON.stringify(values)}`);
}

/** The same script as the worker's, but called for each outcome as it comes. */
export async function oneCallEach(client, all) {
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

export async function scriptOfToday(client, all) {
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
export async function removeAll(client, keys) {
  for await (const found of client.scanStream({ match: `${keys.prefix}*`, count: 1_000 })) {
    if (found.length > 0) await client.unlink(...found);
  }
}
