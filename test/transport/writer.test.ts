import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { shardOf } from '../../src/domain/shard.js';
import { closeRedis, openRedis, whenReady } from '../../src/redis/client.js';
import { setShards } from '../../src/transport/redis-stream/shards.js';
import { createRedisStreamWriter } from '../../src/transport/redis-stream/writer.js';
import { sharedRedisUrl, startRedis } from '../support/redis.js';
import { startTcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/wait.js';
import { queued } from './conformance.js';
import { openRedisLog, type RedisLog } from './redis-log.js';

const outcome = (channel: string, durationMs = 0) => queued({ channel, success: true, durationMs });

describe('the writer of the log on Redis Streams', () => {
  let log: RedisLog;
  beforeEach(async () => {
    log = await openRedisLog(sharedRedisUrl());
  });
  afterEach(() => log.close());

  const entriesOf = async (shard: number) => log.client.xrange(log.keys.outcomes(shard), '-', '+');

  it('makes one entry per shard and batch', async () => {
    const batch = Array.from({ length: 40 }, (_, n) => outcome(`channel-${n}`, n));
    expect(await log.writer().send(batch)).toEqual({ sent: 40, unsent: [], unknown: 0 });
    for (let shard = 0; shard < 4; shard += 1) {
      const entries = await entriesOf(shard);
      expect(entries).toHaveLength(1);
      const [, [, version, , json]] = entries[0]!;
      expect(version).toBe('1');
      const channels = (JSON.parse(json!) as { channel: string }[]).map(({ channel }) => channel);
      expect(channels.length).toBeGreaterThan(0);
      expect(channels.every((channel) => shardOf(channel, 4) === shard)).toBe(true);
    }
  });

  it('splits at 1,000 outcomes and at 1 MiB, in order', async () => {
    await log.writer().send(Array.from({ length: 2_500 }, (_, n) => outcome('ALIPAY', n)));
    const sizes = (await entriesOf(shardOf('ALIPAY', 4))).map(([, fields]) =>
      JSON.parse(fields[3]!).map((one: { durationMs: number }) => one.durationMs),
    );
    expect(sizes.map(({ length }) => length)).toEqual([1_000, 1_000, 500]);
    expect(sizes.flat()).toEqual(Array.from({ length: 2_500 }, (_, n) => n));

    const fat = Array.from({ length: 1_000 }, () =>
      queued({ channel: 'B', success: false, code: '码'.repeat(128), source: '源'.repeat(128), at: '时'.repeat(64) }),
    );
    const before = (await entriesOf(shardOf('B', 4))).length;
    await log.writer().send([...fat, ...fat]);
    const texts = (await entriesOf(shardOf('B', 4))).slice(before).map(([, fields]) => Buffer.byteLength(fields[3]!));
    expect(texts.length).toBeGreaterThan(1);
    expect(Math.max(...texts)).toBeLessThanOrEqual(1_048_576);
  });

  it('takes the number of shards from Redis, whatever it was told', async () => {
    await setShards(log.client, log.keys, 1);
    await log.writer({ shards: 8 }).send([outcome('a'), outcome('b'), outcome('c'), outcome('d')]);
    expect(await log.client.xlen(log.keys.outcomes(0))).toBe(1);
    expect(await log.client.hget(log.keys.shards, 'count')).toBe('1');
  });

  it('caps a shard, so that workers that are away do not fill Redis', async () => {
    const writer = log.writer({ maxLen: 100 });
    for (let n = 0; n < 500; n += 1) await writer.send([outcome('ALIPAY', n)]);
    // "~" cuts whole nodes of 100 entries.
    expect(await log.client.xlen(log.keys.outcomes(shardOf('ALIPAY', 4)))).toBeLessThanOrEqual(200);
  });

  it('tells what was never written because Redis refused it, while other shards go on', async () => {
    const shard = shardOf('ALIPAY', 4);
    await log.client.set(log.keys.outcomes(shard), 'a foreign hand');
    const other = Array.from({ length: 50 }, (_, n) => `o${n}`).find((name) => shardOf(name, 4) !== shard)!;
    const batch = [...Array.from({ length: 1_200 }, (_, n) => outcome('ALIPAY', n)), outcome(other)];
    const result = await log.writer().send(batch);
    expect(result).toMatchObject({ sent: 1, unknown: 0 });
    expect(result.unsent).toEqual(batch.slice(0, 1_200));
    expect(result.error?.message).toContain('WRONGTYPE');
  });
});

describe('the writer, when Redis is in trouble,', () => {
  it('7.01 never repeats an append whose answer was lost, and says that it does not know', async () => {
    const server = await startRedis();
    const proxy = await startTcpProxy({ port: Number(new URL(server.url).port) });
    const log = await openRedisLog(server.url);
    const client = openRedis(proxy.url, 'publish');
    await whenReady(client);
    const writer = createRedisStreamWriter({ client, keys: log.keys, deadlineMs: 1_000 });
    await writer.send([outcome('ALIPAY', 0)]);
    const swallowed = proxy.swallowReplyTo(/xadd/i);
    expect(await writer.send([outcome('ALIPAY', 1)])).toMatchObject({ sent: 0, unsent: [], unknown: 1 });
    await swallowed;
    await until(() => client.status === 'ready', { what: 'the connection to be back' });
    expect(await writer.send([outcome('ALIPAY', 2)])).toMatchObject({ sent: 1, unknown: 0 });
    const entries = await log.client.xrange(log.keys.outcomes(shardOf('ALIPAY', 4)), '-', '+');
    expect(entries.map(([, fields]) => JSON.parse(fields[3]!)[0].durationMs)).toEqual([0, 1, 2]);
    await Promise.all([closeRedis(client), log.close()]);
  });

  it('gives everything back as unsent while there is no connection', async () => {
    const server = await startRedis();
    const proxy = await startTcpProxy({ port: Number(new URL(server.url).port) });
    const log = await openRedisLog(server.url);
    const client = openRedis(proxy.url, 'publish');
    await whenReady(client);
    const writer = createRedisStreamWriter({ client, keys: log.keys });
    await proxy.refuse();
    await until(() => client.status !== 'ready', { what: 'the connection to be lost' });
    const batch = [outcome('ALIPAY'), outcome('WECHAT')];
    expect(await writer.send(batch)).toMatchObject({ sent: 0, unsent: batch, unknown: 0 });
    await proxy.accept();
    await until(() => client.status === 'ready', { what: 'the connection to be back' });
    expect(await writer.send(batch)).toMatchObject({ sent: 2 });
    await Promise.all([closeRedis(client), log.close()]);
  });

  it('answers within its deadline though Redis is frozen', async () => {
    const server = await startRedis();
    const log = await openRedisLog(server.url);
    const writer = log.writer({ deadlineMs: 200 });
    await writer.send([outcome('ALIPAY')]);
    process.kill(server.pid, 'SIGSTOP');
    const startedAt = performance.now();
    // The second entry waits for the first: nothing may overtake what is perhaps not in the log.
    const batch = Array.from({ length: 1_200 }, (_, n) => outcome('ALIPAY', n));
    expect(await writer.send(batch)).toMatchObject({ sent: 0, unsent: batch.slice(1_000), unknown: 1_000 });
    expect(performance.now() - startedAt).toBeLessThan(1_500);
    process.kill(server.pid, 'SIGCONT');
    await log.close();
  });

  it('gives back what Redis has no memory for', async () => {
    const server = await startRedis({ args: ['--maxmemory', '1kb'] });
    const log = await openRedisLog(server.url);
    const batch = [outcome('ALIPAY')];
    expect(await log.writer().send(batch)).toMatchObject({ sent: 0, unsent: batch, unknown: 0 });
    await log.close();
  });
});
