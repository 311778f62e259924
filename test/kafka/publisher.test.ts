import { beforeAll, expect, it } from 'vitest';
import { createFuseline } from '../../src/fuseline.js';
import { createPublisher } from '../../src/publisher/index.js';
import { sharedKafka } from '../support/kafka.js';
import { startProcess } from '../support/processes.js';
import { sharedRedisUrl } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';
import { startTcpProxy } from '../support/tcp-proxy.js';
import { sleep, until } from '../support/wait.js';
import { judgesOf } from './judge.js';
import { type KafkaLog, openKafkaLog } from './kafka-log.js';
import { wholeTopics } from './whole-topics.js';

beforeAll(sharedKafka, 120_000);

async function open(): Promise<KafkaLog> {
  const log = await openKafkaLog(await sharedKafka());
  releaseAtEnd(log.close);
  return log;
}

it('a service that flushes before it ends loses nothing, keeps its own codecs, and is not kept alive by its connection to Kafka', async () => {
  const log = await open();
  const judges = await judgesOf(log);
  const judge = judges.start();
  const running = startProcess('test/kafka/ends.mjs', [log.brokers, log.topic, 'flush']);
  const late = new Promise((resolve) => setTimeout(resolve, 15_000, 'still running'));
  expect(await Promise.race([running.exited, late])).toEqual({ code: 0, signal: null });
  expect(running.lines).toEqual(['published', 'flushed true', 'codec kept']);
  await until(() => judge.reader.progress().counters.entries_read === 1, { what: 'the outcome' });
});

it('a service whose brokers are away ends all the same, soon', async () => {
  const running = startProcess('test/kafka/ends.mjs', ['127.0.0.1:1', 'any']);
  const late = new Promise((resolve) => setTimeout(resolve, 25_000, 'still running'));
  expect(await Promise.race([running.exited, late])).toEqual({ code: 0, signal: null });
}, 40_000);

it('createFuseline publishes to Kafka where it is told to, and reads verdicts from Redis', async () => {
  const log = await open();
  const judges = await judgesOf(log);
  judges.start();
  const fuse = await createFuseline({
    url: sharedRedisUrl(),
    prefix: log.keys.prefix,
    transport: 'kafka',
    kafkaBrokers: log.brokers,
    kafkaTopic: log.topic,
  });
  releaseAtEnd(() => fuse.close());
  for (const success of [false, true, false]) fuse.publish({ channel: 'ALIPAY', success });
  expect(await fuse.flush()).toBe(true);
  await until(async () => (await judges.window('ALIPAY')) === '010', { what: 'the window' });
  expect(fuse.isBlocked('ALIPAY')).toBe(false);
});

it('a publisher whose brokers are away costs its caller nothing, keeps the newest that it may keep, counts the others, and sends what it kept once they are back', async () => {
  const log = await open();
  // Who is asked first. It names the brokers themselves, which are there.
  const proxy = await startTcpProxy({ port: Number(log.brokers.split(',')[0]!.split(':')[1]) });
  await proxy.refuse();
  const kafka = { brokers: [`127.0.0.1:${proxy.port}`], topic: log.topic };
  const publisher = createPublisher({ kafka, maxBuffered: 1_000 });
  releaseAtEnd(() => publisher.close());
  let spentMs = 0;
  for (let n = 0; n < 4_000; n += 1) {
    const before = performance.now();
    publisher.publish({ channel: 'ALIPAY', success: n % 3 > 0, durationMs: n });
    spentMs += performance.now() - before;
    if (n % 100 === 0) await sleep(10);
  }
  expect(spentMs / 4_000).toBeLessThan(0.1);
  expect(publisher.counts()).toMatchObject({ published: 4_000, sent: 0, unknown: 0, buffered: 1_000 });
  expect(publisher.counts().dropped['buffer-full']).toBe(3_000);
  await proxy.accept();
  expect(await publisher.flush({ timeoutMs: 20_000 })).toBe(true);
  expect(publisher.counts()).toMatchObject({ sent: 1_000, unknown: 0, buffered: 0 });
  const entries = (await wholeTopics(log.brokers, [log.topic]).read()).get('ALIPAY')!;
  const durations = entries.flatMap(({ times }) => times.filter((_ms, i) => i % 2 === 1));
  // The very first was on its way all the while.
  expect(durations).toEqual([0, ...Array.from({ length: 999 }, (_, n) => 3_001 + n)]);
}, 60_000);
