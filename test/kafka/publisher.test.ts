import { beforeAll, expect, it } from 'vitest';
import { createFuseline } from '../../src/fuseline.js';
import { sharedKafka } from '../support/kafka.js';
import { startProcess } from '../support/processes.js';
import { sharedRedisUrl } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';
import { until } from '../support/wait.js';
import { judgesOf } from './judge.js';
import { type KafkaLog, openKafkaLog } from './kafka-log.js';

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
