import { readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { Admin, Consumer } from 'kafkajs';
import { afterAll, beforeAll, describe, expect, it, type TestContext } from 'vitest';
import { findKafka } from '../../deploy/local/find-kafka.mjs';
import { registerCodecs } from '../../src/transport/kafka/codecs.js';
import { createTopics } from '../../src/transport/kafka/topic.js';
import { createKafkaWriter } from '../../src/transport/kafka/writer.js';
import { rulesFile, startRoles, untilReady, type Worker } from '../process/workers.js';
import { fromDesk } from '../support/desk.js';
import { filesUnder } from '../support/files.js';
import { plainKafka, sharedKafka, uniqueTopic } from '../support/kafka.js';
import { type Ended, LANGUAGES, type Language, type Missing, type Program, runToEnd } from '../support/languages.js';
import { sharedRedisUrl, uniquePrefix } from '../support/redis.js';
import { until } from '../support/wait.js';

const ALL = Object.keys(LANGUAGES) as Language[];

/** Another partitioner would put all of them where ours puts them once in 12 ** 8 runs. */
const PARTITIONS = 12;
const NAMES = ['ALIPAY', 'sms-aliyun', '微信支付', 'caf\u00e9', 'stripe/eu-1', 'a b', '\u{1f4b3}-pay', 'x'.repeat(128)];

describe('examples in other languages, on a real broker and a real Redis', () => {
  const topic = uniqueTopic();
  const programs = new Map<Language, Program | Missing>();
  /** Every record of the topic, as any program reads it. */
  const records: { key: string; partition: number; outcome: { channel: string; source?: string } }[] = [];
  let env: Record<string, string>;
  let worker: Worker;
  let consumer: Consumer;
  let admin: Admin;

  beforeAll(async () => {
    const brokers = await sharedKafka();
    env = {
      FUSELINE_TRANSPORT: 'kafka',
      FUSELINE_KAFKA_BROKERS: brokers,
      FUSELINE_KAFKA_TOPIC: topic,
      FUSELINE_KAFKA_GROUP: topic,
      FUSELINE_REDIS_URL: sharedRedisUrl(),
      FUSELINE_PREFIX: uniquePrefix(),
      FUSELINE_RULES: await rulesFile({
        version: 1,
        mode: 'on',
        defaults: { window: 10, successRate: 70, block: '1m' },
      }),
    };
    // This test's own consumer: the Go client packs in snappy, and publishers of ours leave kafkajs's codecs alone.
    registerCodecs();
    const kafka = plainKafka(brokers);
    admin = kafka.admin();
    await admin.connect();
    await createTopics(admin, { topic, partitions: PARTITIONS, replicas: 1, retentionMs: 3_600_000 });
    for (const name of ALL) programs.set(name, await fromDesk(name));

    worker = startRoles(['outcomes'], env);
    await untilReady(worker);
    consumer = kafka.consumer({ groupId: uniqueTopic(), maxWaitTimeInMs: 100 });
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await consumer.run({
      async eachMessage({ partition, message: { key, value } }) {
        records.push({ key: String(key), partition, outcome: JSON.parse(String(value)) });
      },
    });
    const writer = createKafkaWriter({ brokers: brokers.split(','), topic });
    const queued = NAMES.map((channel) => ({
      outcome: { channel, success: true },
      queuedAt: performance.now(),
      bytes: 50,
    }));
    expect(await writer.send(queued)).toMatchObject({ sent: NAMES.length, unknown: 0, unsent: [] });
    await writer.close();
  }, 300_000);
  afterAll(async () => {
    worker?.kill('SIGTERM');
    await worker?.exited;
    await consumer?.disconnect();
    await admin?.disconnect();
  });

  /** Runs the language's example, or skips the test where the language is missing. */
  async function run(context: TestContext, language: Language, words: string[]): Promise<string[]> {
    const program = programs.get(language)!;
    if ('missing' in program) return context.skip(program.missing);
    const ended: Ended = await runToEnd(program.command, [...program.args, ...words], { ...program.env, ...env });
    expect(ended.code, ended.stderr).toBe(0);
    return ended.stdout.trim().split('\n');
  }

  /** Where ours put a channel's outcomes. */
  async function ourPartition(channel: string): Promise<number> {
    const ours = () => records.find(({ key, outcome }) => key === channel && outcome.source === undefined);
    return (await until(ours, { what: `our outcome of ${channel}` })).partition;
  }

  it.for(ALL)(
    'each channel that %s publishes lies in the partition where ours puts it',
    { timeout: 30_000 },
    async (language, context) => {
      const said = await run(context, language, ['publish', 'OK', ...NAMES]);
      const source = `checkout-${language.toLowerCase()}`;
      const theirs = () => records.filter(({ outcome }) => outcome.source === source);
      await until(() => theirs().length === NAMES.length, { what: `${NAMES.length} records from ${language}` });
      for (const name of NAMES) {
        const partition = await ourPartition(name);
        expect(theirs().find(({ outcome }) => outcome.channel === name)).toMatchObject({ key: name, partition });
        expect(said).toContain(`${name} partition ${partition}`);
      }
    },
  );

  it.for(ALL)(
    'failures that %s publishes block the channel, and it is told so when it asks',
    { timeout: 60_000 },
    async (language, context) => {
      const channel = `${language}/微信支付`;
      const ask = async () => (await run(context, language, ['ask', channel])).join();
      expect(await ask()).toBe('in use');
      await run(context, language, ['publish', 'SYSTEM_ERROR', ...Array(4).fill(channel)]);
      await until(ask, {
        what: `${channel} to be blocked`,
        accept: (answer) => answer === 'blocked',
        timeoutMs: 20_000,
      });
    },
  );

  it('Java needs no more than its pom.xml says, in the versions with which it is run here', async (context) => {
    if ('missing' in programs.get('Java')!) context.skip('Java is missing');
    const pom = readFileSync('examples/java/pom.xml', 'utf8');
    const named = [...pom.matchAll(/<artifactId>(\S+)<\/artifactId>\s*<version>([\d.]+)<\/version>\s*<\/dependency>/g)];
    const { classPath } = await findKafka();
    const jars = filesUnder(dirname(classPath).slice(process.cwd().length + 1), '.jar').map((path) => basename(path));
    expect(named.length).toBe(2);
    for (const [, artifact, version] of named) expect(jars).toContain(`${artifact}-${version}.jar`);
  });
});
