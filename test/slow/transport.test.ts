import { expect, it } from 'vitest';
import { shardOf } from '../../src/domain/shard.js';
import { createPublisher } from '../../src/publisher/index.js';
import { closeRedis, openRedis, whenReady } from '../../src/redis/client.js';
import { createRedisStreamWriter } from '../../src/transport/redis-stream/writer.js';
import { startProcess } from '../support/processes.js';
import { sharedRedisUrl } from '../support/redis.js';
import { startCluster } from '../support/redis-cluster.js';
import { startSentinel } from '../support/redis-sentinel.js';
import { until } from '../support/wait.js';
import { collector, queued } from '../transport/conformance.js';
import { openRedisLog } from '../transport/redis-log.js';

const read = (url: string, prefix: string) => startProcess('test/transport/read.mjs', [url, prefix]);
const ALL = { timeoutMs: 15_000 };

it.concurrent('reading goes on within 12 s after a worker was killed, and within 1 s after one was asked to end', async () => {
  const log = await openRedisLog(sharedRedisUrl());
  const one = read(sharedRedisUrl(), log.keys.prefix);
  await one.waitForLine(/owns 4/);
  one.kill('SIGKILL');
  await one.exited;
  const killedAt = performance.now();
  const two = read(sharedRedisUrl(), log.keys.prefix);
  await log.writer().send([queued({ channel: 'ALIPAY', success: false, durationMs: 1 })]);
  await two.waitForLine(/read 1$/, ALL);
  expect(performance.now() - killedAt).toBeLessThan(12_000);
  await two.waitForLine(/owns 4/, ALL);

  const three = read(sharedRedisUrl(), log.keys.prefix);
  await three.waitForLine(/owns 2/, ALL);
  await two.waitForLine(/owns 2/, ALL);
  const askedAt = performance.now();
  two.kill('SIGTERM');
  await three.waitForLine(/owns 4/, ALL);
  expect(performance.now() - askedAt).toBeLessThan(1_000);
  expect(await two.exited).toEqual({ code: 0, signal: null });
  await log.close();
}, 60_000);

it.concurrent('a worker that was frozen loses its shards to another, and commits nothing over its head', async () => {
  const log = await openRedisLog(sharedRedisUrl());
  const frozen = read(sharedRedisUrl(), log.keys.prefix);
  await frozen.waitForLine(/owns 4/);
  const other = read(sharedRedisUrl(), log.keys.prefix);
  await other.waitForLine(/owns 2/, ALL);
  frozen.kill('SIGSTOP');
  await other.waitForLine(/owns 4/, ALL);
  for (let n = 1; n <= 20; n += 1)
    await log.writer().send([queued({ channel: `c${n}`, success: true, durationMs: n })]);
  for (let n = 1; n <= 20; n += 1) await other.waitForLine(new RegExp(`read ${n}$`), ALL);
  const positions = async () =>
    await Promise.all(
      [0, 1, 2, 3].map(async (n) =>
        String(((await log.client.xinfo('GROUPS', log.keys.outcomes(n))) as string[][])[0]![7]),
      ),
    );
  const before = await positions();
  frozen.kill('SIGCONT');
  // Balance gives it half of the shards again.
  const said = frozen.lines.length;
  await until(() => frozen.lines.slice(said).some((line) => line === 'owns 2'), {
    what: 'half of the shards',
    timeoutMs: 50_000,
  });
  expect(await positions()).toEqual(before);
  await log.close();
}, 90_000);

it.concurrent('7.10 works on a cluster, with a shard on each node, and goes on when a primary is killed', async () => {
  const cluster = await startCluster();
  const log = await openRedisLog(cluster.url);
  const seen = collector();
  const stop = new AbortController();
  const reader = log.reader();
  const ended = reader.run(seen.handler, stop.signal);
  await until(() => reader.progress().owned.length === 4, { what: 'all shards' });
  const publisher = createPublisher({ url: cluster.url, prefix: log.keys.prefix });
  const channels = ['ALIPAY', '微信支付', 'sms', 'stripe/eu-1', ...Array.from({ length: 12 }, (_, n) => `c${n}`)];
  expect(new Set(channels.map((channel) => shardOf(channel, 4))).size).toBe(4);
  const publish = (durationMs: number) => {
    for (const channel of channels) publisher.publish({ channel, success: true, durationMs });
  };
  publish(1);
  const has = (channel: string, durationMs: number) => seen.of(channel).some((one) => one.durationMs === durationMs);
  await until(
    () =>
      channels.every((channel) => has(channel, 1))
        ? true
        : [seen.outcomes.length, reader.progress(), publisher.counts(), publisher.lastError()],
    { what: 'outcomes of all shards', accept: (value) => value === true },
  );
  // Nodes that were not connected yet refused at first; nothing of that is unknown.
  expect(publisher.counts()).toMatchObject({ sent: channels.length, unknown: 0 });
  await reader.deadLetter({ reason: 'r', partition: 'p', position: '1-1', index: 0, raw: '' });
  expect(await log.deadLetters()).toHaveLength(1);

  process.kill(cluster.nodes[0]!.pid!, 'SIGKILL');
  let n = 1;
  await until(
    () => {
      n += 1;
      publish(n);
      return channels.every((channel) => has(channel, n - 3));
    },
    { what: 'fresh outcomes of every channel', timeoutMs: 40_000, intervalMs: 200, accept: (all) => all && n > 20 },
  );
  await publisher.flush();
  const { published, sent, unknown, dropped } = publisher.counts();
  expect(sent + unknown).toBe(published);
  expect(dropped['buffer-full']).toBe(0);
  // Each entry was read at least once (again after the failover); none has been appended twice.
  for (let shard = 0; shard < 4; shard += 1) {
    const entries = await log.client.xrange(log.keys.outcomes(shard), '-', '+');
    const all = entries.flatMap(([, fields]) =>
      (JSON.parse(fields[3]!) as { channel: string; durationMs: number }[]).map(
        (one) => `${one.channel} ${one.durationMs}`,
      ),
    );
    expect(new Set(all).size).toBe(all.length);
  }
  stop.abort();
  await Promise.all([ended, publisher.close()]);
  await log.close();
}, 120_000);

it.concurrent('goes on behind Sentinel when the primary is killed, and reads the last 30 s again', async () => {
  const sentinel = await startSentinel();
  const log = await openRedisLog(sentinel.url);
  const client = openRedis(sentinel.url, 'publish');
  await whenReady(client);
  const writer = createRedisStreamWriter({ client, keys: log.keys });
  const seen = collector();
  const stop = new AbortController();
  const reader = log.reader();
  const ended = reader.run(seen.handler, stop.signal);
  await until(() => reader.progress().owned.length === 4, { what: 'all shards' });
  await writer.send([queued({ channel: 'ALIPAY', success: true, durationMs: 1 })]);
  await until(() => seen.outcomes.length === 1, { what: 'the first outcome' });
  await until(() => log.client.wait(1, 500), { what: 'the replica to have it' });
  await sentinel.killPrimary();
  await until(
    async () => (await writer.send([queued({ channel: 'ALIPAY', success: true, durationMs: 2 })])).sent === 1,
    {
      what: 'the new primary to take an outcome',
      timeoutMs: 30_000,
    },
  );
  await until(() => seen.of('ALIPAY').some(({ durationMs }) => durationMs === 2), {
    what: 'the outcome after it',
    timeoutMs: 30_000,
  });
  const durations = seen.of('ALIPAY').map(({ durationMs }) => durationMs);
  expect(durations.slice(0, 3)).toEqual([1, 1, 2]);
  expect(reader.progress().counters.failovers).toBeGreaterThan(0);
  stop.abort();
  await ended;
  await Promise.all([closeRedis(client), log.close()]);
}, 90_000);
