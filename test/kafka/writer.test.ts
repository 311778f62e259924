import { beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../deploy/local/redis-server.mjs';
import { createPublisher } from '../../src/publisher/index.js';
import { createKafkaWriter } from '../../src/transport/kafka/writer.js';
import { sharedKafka, startKafka, uniqueTopic } from '../support/kafka.js';
import { releaseAtEnd } from '../support/releasers.js';
import { startTcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/wait.js';
import { collector, queued } from '../transport/conformance.js';
import { type KafkaLog, openKafkaLog } from './kafka-log.js';

beforeAll(sharedKafka, 120_000);

const outcome = (channel: string, durationMs = 0) => queued({ channel, success: true, durationMs });

async function open(brokers: string, partitions = 4): Promise<KafkaLog> {
  const log = await openKafkaLog(brokers, { partitions });
  releaseAtEnd(log.close);
  return log;
}

/** Reads a log from its beginning until `count` outcomes are there. */
async function readAll(log: KafkaLog, count: number) {
  const seen = collector();
  const stop = new AbortController();
  const ended = log.reader({ group: uniqueTopic() }).run(seen.handler, stop.signal);
  releaseAtEnd(async () => {
    stop.abort();
    await ended;
  });
  await until(() => seen.outcomes.length >= count, { what: `${count} outcomes`, timeoutMs: 20_000 });
  return seen;
}

describe('the writer of the log on Kafka', () => {
  it('makes one record per channel and batch, keyed by the channel, in the partition that Java would choose', async () => {
    const log = await open(await sharedKafka(), 12);
    const names = ['ALIPAY', '微信支付', 'stripe/eu-1', 'sms-aliyun', 'caf\u00e9', 'a', 'b', 'c', 'd', 'e'];
    const batch = Array.from({ length: 40 }, (_, n) => outcome(names[n % 10]!, n));
    expect(await log.writer().send(batch)).toEqual({ sent: 40, unsent: [], unknown: 0 });
    const seen = await readAll(log, 40);
    expect(seen.entries).toHaveLength(10);
    const partitions = new Map<string, string>();
    for (const [partition, positions] of seen.positions) partitions.set(partition, positions.join());
    for (const name of names) {
      expect([...partitions.keys()].map((key) => Number(key.split('/')[2]))).toContain(log.partitionOf(name));
      expect(seen.of(name).map(({ durationMs }) => durationMs! % 10)).toEqual(Array(4).fill(names.indexOf(name)));
    }
  });

  it('splits at 1,000 outcomes and below what a broker takes at once, in order, packed or not', async () => {
    const log = await open(await sharedKafka(), 1);
    const long = { success: false, code: '码'.repeat(128), source: '源'.repeat(128), at: '时'.repeat(64) };
    const many = Array.from({ length: 2_500 }, (_, n) => outcome('A', n));
    const fat = Array.from({ length: 2_000 }, (_, n) => queued({ channel: 'B', durationMs: n, ...long }));
    const gzip = log.writer({ compression: 'gzip' });
    expect(await log.writer().send(many)).toMatchObject({ sent: 2_500 });
    expect(await gzip.send(fat)).toMatchObject({ sent: 2_000 });
    const seen = await readAll(log, 4_500);
    expect(seen.entries.map(({ outcomes }) => outcomes.length).slice(0, 3)).toEqual([1_000, 1_000, 500]);
    for (const channel of ['A', 'B']) {
      const durations = seen.of(channel).map(({ durationMs }) => durationMs);
      expect(durations).toEqual(durations.map((_, n) => n));
    }
    expect(seen.entries.length).toBeGreaterThan(4);
  });

  it('gives everything back as unsent while there is no broker, and says why', async () => {
    const writer = createKafkaWriter({ brokers: [`127.0.0.1:${await freePort()}`], deadlineMs: 500 });
    const batch = [outcome('A'), outcome('B')];
    const startedAt = performance.now();
    const result = await writer.send(batch);
    expect(result).toMatchObject({ sent: 0, unsent: batch, unknown: 0 });
    expect(performance.now() - startedAt).toBeLessThan(3_000);
    await writer.close();
  });

  it('gives everything back when the topic does not exist, and names the command that makes it', async () => {
    const writer = createKafkaWriter({ brokers: (await sharedKafka()).split(','), topic: 'test-nowhere' });
    releaseAtEnd(() => writer.close());
    const batch = [outcome('A')];
    const { unsent, unknown, error } = await writer.send(batch);
    expect({ unsent, unknown }).toEqual({ unsent: batch, unknown: 0 });
    expect(error?.message).toBe('the topic test-nowhere does not exist (fuseline kafka create-topic makes it)');
  }, 40_000);
});

/** A broker that clients reach through a proxy alone. */
async function proxied() {
  const port = await freePort();
  const proxy = await startTcpProxy({ port });
  const broker = await startKafka({
    port,
    properties: { 'advertised.listeners': `PLAINTEXT://127.0.0.1:${proxy.port}` },
  });
  return { broker, proxy, brokers: `127.0.0.1:${proxy.port}` };
}

describe('the writer, when its broker is in trouble,', () => {
  it('sends again what got no answer, and the log has it once; what never left comes back; a publisher loses nothing', async () => {
    const { proxy, brokers } = await proxied();
    const log = await open(brokers, 1);
    const writer = log.writer();
    await writer.send([outcome('A', 0)]);

    // A produce request: api key 0 behind the four bytes of its length.
    const swallowed = proxy.swallowReplyTo(/^[\s\S]{4}\0\0[\s\S]*durationMs/);
    expect(await writer.send([outcome('A', 1)])).toMatchObject({ sent: 1, unknown: 0 });
    await swallowed;
    expect((await readAll(log, 2)).outcomes.map(({ durationMs }) => durationMs)).toEqual([0, 1]);

    const hasty = log.writer({ deadlineMs: 600, answerWithinMs: 10_000 });
    await hasty.send([outcome('A', 2)]);
    const publisher = createPublisher({ kafka: { brokers: [brokers], topic: log.topic, deadlineMs: 1_000 } });
    proxy.pause();
    const unanswered = await hasty.send([outcome('A', 3)]);
    expect(unanswered).toMatchObject({ sent: 0, unsent: [], unknown: 1 });
    const batch = [outcome('A', 4)];
    // It has no connection any more, and gets none.
    await proxy.refuse();
    expect(await hasty.send(batch)).toMatchObject({ sent: 0, unsent: batch, unknown: 0 });
    for (let n = 100; n < 200; n += 1) publisher.publish({ channel: 'P', success: false, durationMs: n });
    expect(await publisher.flush({ timeoutMs: 100 })).toBe(false);
    proxy.resume();
    await proxy.accept();
    expect(await hasty.send(batch)).toMatchObject({ sent: 1 });
    expect(await publisher.flush({ timeoutMs: 15_000 })).toBe(true);
    expect(publisher.counts()).toMatchObject({ sent: 100, unknown: 0 });
    await publisher.close();

    const seen = await readAll(log, 104);
    expect(seen.of('P').map(({ durationMs }) => durationMs)).toEqual(Array.from({ length: 100 }, (_, n) => n + 100));
    const ours = seen.of('A').map(({ durationMs }) => durationMs);
    // The one without an answer may be there or not, never twice.
    expect(ours.filter((n) => n !== 3)).toEqual([0, 1, 2, 4]);
    expect(ours.filter((n) => n === 3).length).toBeLessThanOrEqual(1);
  }, 90_000);
});
