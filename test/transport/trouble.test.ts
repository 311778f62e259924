import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { shardOf } from '../../src/domain/shard.js';
import { closeRedis, openRedis, whenReady } from '../../src/redis/client.js';
import type { LogReader } from '../../src/transport/port.js';
import type { Log } from '../../src/transport/quiet-log.js';
import { logName } from '../../src/transport/redis-stream/log-record.js';
import { GROUP, type ReaderOptions } from '../../src/transport/redis-stream/options.js';
import { dropEmptyShards, setShards } from '../../src/transport/redis-stream/shards.js';
import { sharedRedisUrl, startRedis } from '../support/redis.js';
import { startTcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/wait.js';
import { collector, queued } from './conformance.js';
import { openRedisLog, type RedisLog } from './redis-log.js';

const SHARD = shardOf('ALIPAY', 4);
const alipay = (n: number) => ({ channel: 'ALIPAY', success: '1', durationMs: String(n) });

function lines() {
  const said: string[] = [];
  const log: Log = { info: () => {}, warn: (facts, message) => said.push(`${message} ${JSON.stringify(facts)}`) };
  return { said, log };
}

/** Reads until the test is over. */
function read(log: RedisLog, options: Partial<ReaderOptions> = {}, before: () => Promise<void> = async () => {}) {
  const seen = collector();
  const reader = log.reader(options);
  const stop = new AbortController();
  const ended = reader.run(async (batch, signal) => {
    await before();
    await seen.handler(batch, signal);
  }, stop.signal);
  const durations = () => seen.of('ALIPAY').map(({ durationMs }) => durationMs);
  return {
    seen,
    reader,
    durations,
    owns: () => until(() => reader.progress().owned.length === 4, { what: 'all four shards' }),
    async stop() {
      stop.abort();
      await ended;
    },
  };
}

const counter = (reader: LogReader, name: string) => reader.progress().counters[name] ?? 0;

async function groupOf(log: RedisLog, shard = SHARD): Promise<Record<string, unknown>> {
  const [flat] = (await log.client.xinfo('GROUPS', log.keys.outcomes(shard))) as unknown[][];
  const group: Record<string, unknown> = {};
  for (let i = 0; i < flat!.length; i += 2) group[String(flat![i])] = flat![i + 1];
  return group;
}

describe('a shard whose stream goes away', () => {
  it('3.03 is made anew when it is deleted under a waiting read, and read on, with few lines', async () => {
    const log = await openRedisLog(sharedRedisUrl());
    const { said, log: lineLog } = lines();
    const reading = read(log, { log: lineLog, blockMs: 500 });
    await reading.owns();
    await log.append(SHARD, alipay(1));
    await until(() => reading.durations().length === 1, { what: 'the first outcome' });
    const startedAt = performance.now();
    await log.client.del(log.keys.outcomes(SHARD));
    await until(() => log.client.exists(log.keys.outcomes(SHARD)), { what: 'the stream to be made anew' });
    await log.append(SHARD, alipay(2));
    await until(() => reading.durations().length === 2, { what: 'an outcome of the new stream' });
    expect(reading.durations()).toEqual([1, 2]);
    await until(async () => (await groupOf(log)).lag === 0, { what: 'a lag of 0' });
    expect(said.length).toBeLessThanOrEqual(2 + 2 * ((performance.now() - startedAt) / 1_000));
    expect(reading.reader.progress().owned).toContain(`${logName(log.keys, SHARD)}/2`);
    await reading.stop();
    await log.close();
  });

  it('3.03 goes on after FLUSHALL', async () => {
    const server = await startRedis();
    const log = await openRedisLog(server.url);
    const { said, log: lineLog } = lines();
    const reading = read(log, { log: lineLog, blockMs: 500 });
    await reading.owns();
    await log.append(SHARD, alipay(1));
    await until(() => reading.durations().length === 1, { what: 'the first outcome' });
    await log.client.flushall();
    await log.append(SHARD, alipay(2));
    await until(() => reading.durations().length === 2, { what: 'an outcome after the flush' });
    await until(() => log.client.hget(log.keys.shards, 'count'), { what: 'the registry to be back' });
    await until(async () => (await groupOf(log)).lag === 0, { what: 'a lag of 0' });
    expect(said.length).toBeLessThan(10);
    await reading.stop();
    await log.close();
  });

  it('gets another generation when the log ends below the position that is remembered, so that low ids are no duplicates', async () => {
    const log = await openRedisLog(sharedRedisUrl());
    const first = read(log);
    await first.owns();
    await log.client.xadd(log.keys.outcomes(SHARD), '99999999999999-0', ...Object.entries(alipay(1)).flat());
    await until(() => first.durations().length === 1, { what: 'the outcome from the future' });
    await first.stop();
    await log.client.del(log.keys.outcomes(SHARD));
    await log.append(SHARD, alipay(2));
    const second = read(log);
    await until(() => second.durations().length === 1, { what: 'the outcome of the new log' });
    expect(second.durations()).toEqual([2]);
    expect([...second.seen.positions.keys()]).toEqual([`${logName(log.keys, SHARD)}/2`]);
    await second.stop();
    await log.close();
  });

  it('gets higher ids when a failover lost its tail, and counts that', async () => {
    const log = await openRedisLog(sharedRedisUrl());
    const first = read(log);
    await first.owns();
    await log.append(SHARD, alipay(1));
    await until(() => first.durations().length === 1, { what: 'the first outcome' });
    await first.stop();
    // The log as a replica had it, before the last entry came, and the record as of later.
    const record = JSON.parse((await log.client.hget(log.keys.log, logName(log.keys, SHARD)))!);
    await log.client.hset(
      log.keys.log,
      logName(log.keys, SHARD),
      JSON.stringify({ ...record, position: '99999999999999-7' }),
    );
    const second = read(log);
    await until(() => counter(second.reader, 'position_resets') === 1, { what: 'the reset to be counted' });
    const id = await log.append(SHARD, alipay(2));
    expect(id.startsWith('99999999999999-8')).toBe(true);
    await until(() => second.durations().includes(2), { what: 'the new outcome' });
    await second.stop();
    await log.close();
  });
});

describe('after a failover', () => {
  it('a shard is read again from before it, since the last writes may not have reached the new server', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'fuseline-'));
    const args = ['--appendonly', 'yes', '--appendfsync', 'always'];
    const server = await startRedis({ dir, args });
    const port = Number(new URL(server.url).port);
    const log = await openRedisLog(server.url);
    const reading = read(log);
    await reading.owns();
    for (let n = 1; n <= 3; n += 1) await log.append(SHARD, alipay(n));
    await until(async () => (await groupOf(log)).lag === 0, { what: 'three outcomes committed' });
    await server.stop();
    // A server that starts anew has another replication id, as a promoted replica has.
    await startRedis({ dir, args, port });
    await until(() => log.append(SHARD, alipay(4)), { what: 'the server to be back' });
    await until(() => reading.durations().includes(4), { what: 'the outcome sent afterwards' });
    expect(reading.durations()).toEqual([1, 2, 3, 1, 2, 3, 4]);
    expect(new Set(reading.seen.positions.keys()).size).toBe(1);
    await until(() => counter(reading.reader, 'failovers') === 4, { what: 'all four shards to have gone back' });
    await reading.stop();
    const next = read(log);
    await log.append(SHARD, alipay(5));
    await until(() => next.durations().length > 0, { what: 'the next reader' });
    expect(next.durations()).toEqual([5]);
    await next.stop();
    await log.close();
    await rm(dir, { recursive: true });
  });
});

describe('after a failover of the server that holds the channels', () => {
  it('a handler that still repeats its call is ended, and gets what lay before first', async () => {
    const log = await openRedisLog(sharedRedisUrl());
    const channels = await startRedis();
    const client = openRedis(channels.url, 'commands');
    const seen: number[][] = [];
    let insist = false;
    const stop = new AbortController();
    const reader = log.reader({ watch: [client] });
    const ended = reader.run(async ({ entries }, signal) => {
      const durations = entries.map(({ outcomes }) => Number((outcomes[0] as { durationMs: string }).durationMs));
      seen.push(durations);
      if (insist)
        await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    }, stop.signal);
    await log.append(SHARD, alipay(1));
    await until(async () => (await groupOf(log)).lag === 0, { what: 'the first outcome committed' });
    insist = true;
    await log.append(SHARD, alipay(2));
    await until(() => seen.length === 2, { what: 'the handler to be at the second' });
    await channels.stop();
    insist = false;
    await startRedis({ port: Number(new URL(channels.url).port) });
    await until(() => seen.flat().length >= 4, { what: 'both again' });
    expect(seen.flat()).toEqual([1, 2, 1, 2]);
    stop.abort();
    await ended;
    await Promise.all([log.close(), closeRedis(client)]);
  });
});

describe('the committed position', () => {
  it('shows in XINFO GROUPS, with an exact count of entries read and never a negative lag', async () => {
    const log = await openRedisLog(sharedRedisUrl());
    let gate = 1_000;
    const seen = collector();
    const reader = log.reader({ maxCount: 10 });
    const stop = new AbortController();
    const ended = reader.run(async (batch, signal) => {
      if (seen.entries.length + batch.entries.length > gate) throw new Error('the gate is shut');
      await seen.handler(batch, signal);
    }, stop.signal);
    gate = 30;
    for (let n = 0; n < 57; n += 1) await log.append(SHARD, alipay(n));
    await until(() => counter(reader, 'redeliveries') > 0, { what: 'the gate to be reached' });
    const half = await groupOf(log);
    expect(half['entries-read']).toBe(seen.entries.length);
    expect(half.lag).toBe(57 - seen.entries.length);
    gate = 1_000;
    await until(async () => (await groupOf(log)).lag === 0, { what: 'a lag of 0' });
    expect((await groupOf(log))['entries-read']).toBe(57);
    stop.abort();
    await ended;
    await log.close();
  });

  it('never goes back, and moves only for the holder of the lease', async () => {
    const log = await openRedisLog(sharedRedisUrl());
    const reading = read(log);
    await reading.owns();
    const id = await log.append(SHARD, alipay(1));
    await until(async () => (await groupOf(log))['last-delivered-id'] === id, { what: 'the commit' });
    const { commitShard } = await import('../../src/transport/redis-stream/shard-log.js');
    const worker = (await log.client.get(log.keys.lease(SHARD)))!;
    const to = (last: string) => ({ from: '0-0', first: last, last, count: 1 });
    expect((await commitShard(log.client, log.keys, SHARD, worker, to('1-1'))).result).toBe('behind');
    expect((await commitShard(log.client, log.keys, SHARD, 'another', to('99999999999999-0'))).result).toBe(
      'not-holder',
    );
    expect((await groupOf(log))['last-delivered-id']).toBe(id);
    await reading.stop();
    await log.close();
  });

  it('is followed by the trim, at the distance that a failover may need', async () => {
    const log = await openRedisLog(sharedRedisUrl());
    const old = Date.now() - 120_000;
    const args = Object.entries(alipay(1)).flat();
    // Whole nodes of 100 entries are cut.
    for (let n = 0; n < 500; n += 1) await log.client.xadd(log.keys.outcomes(SHARD), `${old}-${n + 1}`, ...args);
    const newest = await log.append(SHARD, alipay(2));
    const reading = read(log);
    await until(() => reading.durations().includes(2), { what: 'all outcomes' });
    await reading.stop();
    const left = await log.client.xrange(log.keys.outcomes(SHARD), '-', '+');
    expect(left.length).toBeLessThan(110);
    expect(left.at(-1)![0]).toBe(newest);
    expect(reading.durations()).toHaveLength(501);
    await log.close();
  });

  it('tells how many entries the cap cut off before anybody read them', async () => {
    const log = await openRedisLog(sharedRedisUrl());
    const first = read(log);
    await first.owns();
    for (let n = 0; n < 10; n += 1) await log.append(SHARD, alipay(n));
    await until(() => first.durations().length === 10, { what: 'ten outcomes' });
    await first.stop();
    for (let n = 10; n < 200; n += 1) await log.append(SHARD, alipay(n));
    await log.client.xtrim(log.keys.outcomes(SHARD), 'MAXLEN', 50);
    let batches = 0;
    let hold = true;
    const second = read(log, {}, async () => {
      batches += 1;
      if (hold && batches > 1) throw new Error('the test holds');
    });
    // Known with the first commit, long before the end.
    await until(() => counter(second.reader, 'entries_lost_to_cap') > 0, { what: 'the loss to be counted' });
    expect(counter(second.reader, 'entries_lost_to_cap')).toBe(140);
    expect((await groupOf(log)).lag).toBe(50 - second.durations().length);
    hold = false;
    await until(() => second.durations().length === 50, { what: 'what is left' });
    await until(async () => (await groupOf(log)).lag === 0, { what: 'a lag of 0' });
    expect(counter(second.reader, 'entries_lost_to_cap')).toBe(140);
    expect(second.durations()).toEqual(Array.from({ length: 50 }, (_, n) => n + 150));
    await second.stop();
    await log.close();
  });
});

describe('reading', () => {
  it('3.09 takes an empty answer for what it is: no error, no line', async () => {
    const log = await openRedisLog(sharedRedisUrl());
    const { said, log: lineLog } = lines();
    const reading = read(log, { blockMs: 50, log: lineLog });
    await reading.owns();
    const since = reading.reader.progress().lastProgressAt;
    await until(() => reading.reader.progress().lastProgressAt > since + 200, { what: 'four empty reads' });
    expect(said).toEqual([]);
    await reading.stop();
    await log.close();
  });

  it('3.09 notices a connection that is up and says nothing, by its own watchdog', async () => {
    const server = await startRedis();
    const log = await openRedisLog(server.url);
    const proxy = await startTcpProxy({ port: Number(new URL(server.url).port) });
    const reading = read(log, { blockMs: 100, openClient: () => openRedis(proxy.url, 'blocking') });
    await reading.owns();
    await log.append(SHARD, alipay(1));
    await until(() => reading.durations().length === 1, { what: 'the first outcome' });
    proxy.pause();
    await until(() => counter(reading.reader, 'watchdog_reconnects') > 0, { what: 'the watchdog', timeoutMs: 5_000 });
    await log.append(SHARD, alipay(2));
    proxy.resume();
    await until(() => reading.durations().length === 2, { what: 'the second outcome' });
    await reading.stop();
    await log.close();
  });

  it('3.11 does not delay the commands of others while it waits', async () => {
    const log = await openRedisLog(sharedRedisUrl());
    const reading = read(log, { blockMs: 5_000 });
    await reading.owns();
    const times: number[] = [];
    for (let n = 0; n < 50; n += 1) {
      const startedAt = performance.now();
      await log.client.get('x');
      times.push(performance.now() - startedAt);
    }
    times.sort((a, b) => a - b);
    expect(times[25]).toBeLessThan(50);
    const stoppingAt = performance.now();
    await reading.stop();
    expect(performance.now() - stoppingAt).toBeLessThan(1_000);
    await log.close();
  });

  it('asks for fewer entries when they are huge, and gets through them', async () => {
    const log = await openRedisLog(sharedRedisUrl());
    const sizes: number[] = [];
    for (let n = 0; n < 40; n += 1) await log.append(SHARD, { ...alipay(n), code: 'x'.repeat(75_000) });
    const reader = log.reader();
    const stop = new AbortController();
    const ended = reader.run(async ({ entries }) => {
      sizes.push(entries.length);
    }, stop.signal);
    await until(() => sizes.reduce((sum, size) => sum + size, 0) >= 40, {
      what: 'all huge entries',
      timeoutMs: 20_000,
    });
    // Sixteen are more than 1 MiB, eight are not.
    expect(sizes).toEqual([16, 8, 8, 8]);
    stop.abort();
    await ended;
    await log.close();
  });

  it('hands over what cannot be decoded as a fault, and goes on', async () => {
    const log = await openRedisLog(sharedRedisUrl());
    const reading = read(log);
    await log.append(SHARD, { outcomes: 'not json' });
    await log.append(SHARD, alipay(1));
    await until(() => reading.durations().length === 1, { what: 'the good one' });
    const [bad] = reading.seen.entries;
    expect(bad).toMatchObject({ outcomes: [], fault: expect.stringContaining('no JSON') });
    expect(bad!.raw()).toBe('["outcomes","not json"]');
    await reading.stop();
    await log.close();
  });

  it('says that it holds still while Redis is away, and goes on alone', async () => {
    const server = await startRedis();
    const proxy = await startTcpProxy({ port: Number(new URL(server.url).port) });
    const log = await openRedisLog(proxy.url);
    const direct = openRedis(server.url, 'commands');
    await whenReady(direct);
    const { said, log: lineLog } = lines();
    const reading = read(log, { log: lineLog });
    await reading.owns();
    await until(() => reading.reader.progress().paused === undefined, { what: 'all shards to be read' });
    await proxy.refuse();
    await until(() => reading.reader.progress().paused, { what: 'a pause to be told' });
    await direct.xadd(log.keys.outcomes(SHARD), '*', ...Object.entries(alipay(1)).flat());
    const linesBefore = said.length;
    const startedAt = performance.now();
    await proxy.accept();
    await until(() => reading.durations().length === 1, { what: 'the outcome written meanwhile' });
    expect(said.length - linesBefore).toBeLessThanOrEqual(2 + 2 * ((performance.now() - startedAt) / 1_000));
    await until(() => reading.reader.progress().paused === undefined, { what: 'the pause to end' });
    await reading.stop();
    await Promise.all([log.close(), closeRedis(direct)]);
  });
});

describe('a foreign hand', () => {
  it('3.03 that removes the group costs nothing: it is made anew where the reader was', async () => {
    const log = await openRedisLog(sharedRedisUrl());
    const reading = read(log);
    await reading.owns();
    await log.append(SHARD, alipay(1));
    await until(async () => (await groupOf(log)).lag === 0, { what: 'the first outcome committed' });
    await log.client.xgroup('DESTROY', log.keys.outcomes(SHARD), GROUP);
    await log.append(SHARD, alipay(2));
    await until(async () => (await groupOf(log)).lag === 0, { what: 'the group to be back, at the end' });
    expect(reading.durations().filter((n) => n === 1)).toEqual([1]);
    expect(reading.durations()).toContain(2);
    await reading.stop();
    await log.close();
  });

  it('that writes bytes which are no UTF-8 gets one bad outcome, and the next is read', async () => {
    const log = await openRedisLog(sharedRedisUrl());
    const reading = read(log);
    const bytes = Buffer.from([0x41, 0xff, 0xfe, 0x00]);
    await log.client.xadd(log.keys.outcomes(SHARD), '*', 'channel', bytes, 'success', '1');
    await log.client.xadd(log.keys.outcomes(SHARD), '*', bytes, bytes);
    await log.append(SHARD, alipay(1));
    await until(() => reading.durations().length === 1, { what: 'the good one' });
    expect(reading.seen.entries).toHaveLength(3);
    expect(reading.seen.outcomes).toHaveLength(1);
    await reading.stop();
    await log.close();
  });
});

describe('the number of shards', () => {
  it('may be changed while workers read: those no longer written to are read to their end, then dropped', async () => {
    const log = await openRedisLog(sharedRedisUrl());
    await setShards(log.client, log.keys, 8);
    for (let shard = 0; shard < 8; shard += 1) await log.append(shard, alipay(shard));
    await setShards(log.client, log.keys, 2);
    const reading = read(log);
    await until(() => reading.durations().length === 8, { what: 'the outcomes of all eight shards' });
    await reading.stop();
    expect(await dropEmptyShards(log.client, log.keys)).toEqual([]);
    expect(await dropEmptyShards(log.client, log.keys, 0)).toEqual([2, 3, 4, 5, 6, 7]);
    expect(Object.keys(await log.client.hgetall(log.keys.shards)).sort()).toEqual(['0', '1', 'count', 'v']);
    await log.close();
  });

  it('keeps a shard that still has something to read', async () => {
    const log = await openRedisLog(sharedRedisUrl());
    await setShards(log.client, log.keys, 3);
    await log.append(2, alipay(1));
    await setShards(log.client, log.keys, 2);
    expect(await dropEmptyShards(log.client, log.keys, 0)).toEqual([]);
    await expect(setShards(log.client, log.keys, 0)).rejects.toThrow(/from 1 to 256, got 0/);
    await log.close();
  });
});

describe('several workers', () => {
  it('3.13 keep the order within a channel, however many they are and however slow', async () => {
    const log = await openRedisLog(sharedRedisUrl());
    const seen: { durationMs?: number; success: boolean }[] = [];
    const stop = new AbortController();
    const ended = Array.from({ length: 4 }, () =>
      log.reader().run(async (batch, signal) => {
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 20));
        const one = collector();
        await one.handler(batch, signal);
        seen.push(...one.of('ALIPAY'));
      }, stop.signal),
    );
    const results = [...Array(8).fill(true), ...Array(3).fill(false), ...Array(7).fill(true)];
    const writer = log.writer();
    for (const [n, success] of results.entries())
      await writer.send([queued({ channel: 'ALIPAY', success, durationMs: n })]);
    await until(() => seen.length >= 18, { what: 'all outcomes' });
    expect(seen.map(({ success }) => success)).toEqual(results);
    stop.abort();
    await Promise.all(ended);
    await log.close();
  });
});
