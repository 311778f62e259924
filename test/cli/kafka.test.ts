import { beforeAll, expect, it } from 'vitest';
import type { ReplayReport } from '../../src/replay/report.js';
import { withAdmin } from '../../src/transport/kafka/client.js';
import { openKafkaLog } from '../kafka/kafka-log.js';
import { folder } from '../replay/support.js';
import { sharedKafka, uniqueTopic } from '../support/kafka.js';
import { releaseAtEnd } from '../support/releasers.js';
import { until } from '../support/wait.js';
import { collector } from '../transport/conformance.js';
import { fuseline, fuselineHere } from './run.js';

beforeAll(sharedKafka, 120_000);

it('makes the topic with the clock of the log and as many partitions as asked for, and leaves one that exists alone', async () => {
  const brokers = await sharedKafka();
  const topic = uniqueTopic();
  const env = { FUSELINE_KAFKA_BROKERS: brokers, FUSELINE_KAFKA_TOPIC: topic };
  const made = await fuseline(['kafka', 'create-topic', '--partitions', '5', '--retention', '2h'], env);
  expect(made).toEqual({ code: 0, out: `made the topic ${topic}\nmade the topic ${topic}.dead\n`, err: '' });
  const again = await fuselineHere(['kafka', 'create-topic', '--partitions', '7'], env);
  expect(again.code).toBe(0);
  expect(again.out).toContain(`the topic ${topic} exists already and is left as it is`);
  await withAdmin({ brokers: brokers.split(',') }, async (admin) => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
    expect(topics[0]!.partitions).toHaveLength(5);
    const { resources } = await admin.describeConfigs({
      includeSynonyms: false,
      resources: [{ type: 2, name: topic, configNames: ['message.timestamp.type', 'retention.ms'] }],
    });
    const values = resources[0]!.configEntries.map(({ configName, configValue }) => [configName, configValue]);
    expect(Object.fromEntries(values)).toEqual({
      'message.timestamp.type': 'LogAppendTime',
      'retention.ms': '7200000',
    });
  });
});

it.each([
  [[], {}, 'FUSELINE_KAFKA_BROKERS: must be set to use Kafka'],
  [['--partitions', '0'], { FUSELINE_KAFKA_BROKERS: 'a:1' }, '--partitions must be from 1 to 10000, got 0'],
  [['--retention', 'long'], { FUSELINE_KAFKA_BROKERS: 'a:1' }, '--retention must be'],
])('refuses %o with %o, and says why', async (args, env, why) => {
  const { code, err } = await fuselineHere(['kafka', 'create-topic', ...args], env as Record<string, string>);
  expect(code).toBe(2);
  expect(err).toContain(why);
});

it('says that no broker is there', async () => {
  const { code, err } = await fuselineHere(['kafka', 'create-topic', '--kafka-brokers', '127.0.0.1:1']);
  expect(code).toBe(1);
  expect(err).toMatch(/^fuseline: Kafka at 127\.0\.0\.1:1: .*ECONNREFUSED/);
});

it('publishes to Kafka what comes on standard input, in order', async () => {
  const log = await openKafkaLog(await sharedKafka());
  releaseAtEnd(log.close);
  const env = { FUSELINE_TRANSPORT: 'kafka', FUSELINE_KAFKA_BROKERS: log.brokers, FUSELINE_KAFKA_TOPIC: log.topic };
  const lines = Array.from({ length: 1_200 }, (_, n) =>
    JSON.stringify({ channel: '微信', success: n % 2, durationMs: n }),
  );
  const ran = await fuseline(['publish'], { ...env, FUSELINE_KAFKA_COMPRESSION: 'gzip' }, [...lines, 'bad'].join('\n'));
  expect(ran.code).toBe(1);
  expect(ran.out).toBe('sent 1200, invalid 1, unsent 0, unknown 0\n');
  expect(ran.err).toContain('line 1201: not JSON');
  const seen = collector();
  const stop = new AbortController();
  const ended = log.reader().run(seen.handler, stop.signal);
  await until(() => seen.outcomes.length === 1_200, { what: 'all outcomes' });
  expect(seen.of('微信').map(({ durationMs }) => durationMs)).toEqual(lines.map((_, n) => n));
  stop.abort();
  await ended;
});

it('replays what a topic holds of a time, all partitions by arrival, and leaves no group behind', async () => {
  const log = await openKafkaLog(await sharedKafka());
  releaseAtEnd(log.close);
  const { put } = await folder();
  const rules = await put('rules.yaml', { mode: 'on', defaults: { window: 10, successRate: 70, block: '30m' } });
  const outcome = (channel: string) => JSON.stringify({ channel, success: false });
  for (let i = 0; i < 6; i += 1)
    for (const [partition, key] of ['A', 'B'].entries()) await log.append(outcome(key), { partition });
  await log.append('no JSON', { partition: 3 });
  const between = Date.now() + 1;
  await until(() => Date.now() > between, { what: 'the clock to go on' });
  for (let i = 0; i < 5; i += 1) await log.append(outcome('C'), { partition: 1 });
  const env = { FUSELINE_TRANSPORT: 'kafka', FUSELINE_KAFKA_BROKERS: log.brokers, FUSELINE_KAFKA_TOPIC: log.topic };
  const all = await fuselineHere(['replay', rules, '--log', '--json'], env);
  expect(all.code, all.err).toBe(0);
  expect(all.err).toMatch(/^kafka\/.*\/3 0: a record's value is no JSON/m);
  const report = JSON.parse(all.out) as ReplayReport;
  expect(report).toMatchObject({ outcomes: 17, read: { read: 18, bad: 1 } });
  expect(report.ruleSets[0]!.timeline.map(({ channel, blocks }) => [channel, blocks[0]!.calls])).toEqual([
    ['A', 2],
    ['B', 2],
    ['C', 1],
  ]);
  const late = await fuselineHere(['replay', rules, '--log', '--from', String(between), '--json'], env);
  expect(JSON.parse(late.out)).toMatchObject({ outcomes: 5, read: { read: 5 } });
  await withAdmin({ brokers: log.brokers.split(',') }, async (admin) => {
    const { groups } = await admin.listGroups();
    expect(groups.filter(({ groupId }) => groupId.startsWith('fuseline-replay-'))).toEqual([]);
  });
});
