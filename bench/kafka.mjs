// How Kafka as the outcome log compares with bare kafkajs: a worker on a filled topic against an `eachBatch` that only parses, and
// `publish()` against `send` of the same bytes. Broker, Redis and contenders share the machine.

import { randomBytes } from 'node:crypto';
import kafkajs from 'kafkajs';
import { openKafka } from '../deploy/local/kafka.mjs';
import { createIntake } from '../dist/src/intake/intake.js';
import { Stats } from '../dist/src/intake/stats.js';
import { silent } from '../dist/src/observe/log.js';
import { createMetrics } from '../dist/src/observe/metrics.js';
import { createPublisher } from '../dist/src/publisher/index.js';
import { closeRedis, openRedis, whenReady } from '../dist/src/redis/client.js';
import { Keys } from '../dist/src/redis/keys.js';
import { withAdmin } from '../dist/src/transport/kafka/client.js';
import { createKafkaReader } from '../dist/src/transport/kafka/reader.js';
import { createTopics } from '../dist/src/transport/kafka/topic.js';
import { assertJudged, removeAll } from './contenders.mjs';
import { alternate, median, ratios, spread, whole } from './figures.mjs';
import { CHANNELS, FAILURES, outcomes, PER_ENTRY, POLICY } from './load.mjs';

const ROUNDS = 5;
/** Of a bare consumer's rate. */
const SINGLE_LEAST = 0.6;
const PARTITIONS = 4;
const SINGLE = 200_000;
const PACKED = 1_000_000;
const PUBLISHED = 100_000;
/** Longer than the benchmark takes: nothing of the filled topic may grow stale meanwhile. */
const FRESH_FOR_MS = 3_600_000;
/** Outcomes of one send: the publisher's default. */
const BATCH = 500;
/** Calls that end while others are being sent, as in a service that never stops. */
const MOST_WAITING = 5_000;

/** @returns {Promise<boolean>} whether every promise was kept */
export async function kafka(url) {
  const { brokers, stop } = await openKafka();
  const client = openRedis(url, 'commands');
  try {
    await whenReady(client);
    return await measure({ brokers: brokers.split(','), url, client });
  } finally {
    await closeRedis(client);
    await stop();
  }
}

async function measure({ brokers, client }) {
  const single = await fill(brokers, 'single', SINGLE, 1);
  const packed = await fill(brokers, 'packed', PACKED, PER_ENTRY);
  const sends = await publishedBytes(brokers);
  console.log(
    `kafka: ${CHANNELS.length} channels, ${FAILURES * 100} % failures, ${PARTITIONS} partitions; ` +
      `${whole(SINGLE)} records of one outcome (${whole(single.bytes)} bytes), ` +
      `${whole(packed.records)} records of ${PER_ENTRY} (${whole(packed.bytes)} bytes); median of ${ROUNDS} rounds`,
  );
  const one = 'worker, one outcome a record';
  const bare = 'bare eachBatch that parses, the same records';
  const many = `worker, ${PER_ENTRY} outcomes a record`;
  const bareMany = `bare eachBatch that parses, ${PER_ENTRY} a record`;
  const publish = 'publish() until the log has all';
  const send = 'bare send of the same records';
  const figures = await alternate(
    {
      [one]: () => worker({ brokers, client, ...single }),
      [bare]: () => eachBatch({ brokers, ...single }),
      [many]: () => worker({ brokers, client, ...packed }),
      [bareMany]: () => eachBatch({ brokers, ...packed }),
      [publish]: () => published(brokers, sends),
      [send]: () => sent(brokers, sends),
    },
    ROUNDS,
  );
  for (const [name, values] of Object.entries(figures)) {
    const { min, median: middle, max } = spread(values);
    console.log(`  ${name.padEnd(46)} ${whole(middle).padStart(10)} outcomes/s  (${whole(min)} to ${whole(max)})`);
  }
  console.log(
    `  (bare, ${PER_ENTRY} a record / one a record: ${median(ratios(figures, bareMany, bare)).toFixed(2)} times)`,
  );
  console.log(
    `  (worker, ${PER_ENTRY} a record / one a record: ${median(ratios(figures, many, one)).toFixed(2)} times)`,
  );
  const kept = [
    ...[promise(figures, one, bare, SINGLE_LEAST), promise(figures, many, bareMany, SINGLE_LEAST)],
    // Against what the worker itself does with single records, the promise would be the harder to keep the faster these are read.
    ...[promise(figures, many, bare, 5 * SINGLE_LEAST), promise(figures, publish, send, 0.7)],
  ];
  return kept.every(Boolean);
}

function promise(figures, one, other, least) {
  const { min, median: middle, max } = spread(ratios(figures, one, other));
  const kept = middle >= least;
  console.log(
    `  ${kept ? 'ok  ' : 'FAIL'} ${one} / ${other}: ${middle.toFixed(2)} times (${min.toFixed(2)} to ${max.toFixed(2)}), wanted ${least}`,
  );
  return kept;
}

/** A topic that holds so many outcomes, each record with up to `perRecord` of one channel. */
async function fill(brokers, name, count, perRecord) {
  const topic = `bench-${name}-${randomBytes(4).toString('hex')}`;
  await makeTopic(brokers, topic);
  const open = new Map();
  const messages = [];
  const pack = (channel) => {
    const texts = open.get(channel);
    open.delete(channel);
    messages.push({ key: channel, value: perRecord === 1 ? texts[0] : `[${texts.join(',')}]` });
  };
  for (const outcome of outcomes(count)) {
    const texts = open.get(outcome.channel) ?? [];
    open.set(outcome.channel, texts);
    texts.push(JSON.stringify(outcome));
    if (texts.length === perRecord) pack(outcome.channel);
  }
  for (const channel of [...open.keys()]) pack(channel);
  const producer = await openProducer(brokers);
  const perSend = Math.ceil(2_000 / perRecord);
  for (let from = 0; from < messages.length; from += perSend)
    await producer.send({ topic, acks: -1, messages: messages.slice(from, from + perSend) });
  await producer.disconnect();
  return {
    topic,
    count,
    records: messages.length,
    bytes: median(messages.map(({ value }) => Buffer.byteLength(value))),
  };
}

const makeTopic = (brokers, topic) =>
  withAdmin({ brokers }, (admin) =>
    createTopics(admin, { topic, partitions: PARTITIONS, replicas: 1, retentionMs: 86_400_000 }),
  );

/** kafkajs as its own documentation shows it, but for what both sides need alike. */
function bareKafka(brokers) {
  return new kafkajs.Kafka({ brokers, clientId: 'bare', connectionTimeout: 5_000, logLevel: kafkajs.logLevel.NOTHING });
}

async function openProducer(brokers) {
  const producer = bareKafka(brokers).producer({
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    createPartitioner: kafkajs.Partitioners.DefaultPartitioner,
  });
  await producer.connect();
  return producer;
}

/** The time from the first record handed over to the last one done with. */
function stopwatch(records) {
  let startedAt;
  let done = 0;
  let finish;
  const finished = new Promise((resolve) => {
    finish = resolve;
  });
  return {
    begin() {
      startedAt ??= performance.now();
    },
    did(count) {
      done += count;
      if (done === records) finish((performance.now() - startedAt) / 1_000);
    },
    seconds: finished,
  };
}

/** The outcome worker's own reader and intake in this process, as a group that has read nothing yet. */
async function worker({ brokers, client, topic, count, records }) {
  const id = randomBytes(4).toString('hex');
  const keys = new Keys(`bench:kafka:${id}:`);
  const metrics = createMetrics();
  const reader = createKafkaReader({ brokers, client, keys, topic, group: `bench-${id}` });
  const watch = stopwatch(records);
  const timed = {
    deadLetter: reader.deadLetter.bind(reader),
    progress: reader.progress.bind(reader),
    run: (handler, signal) =>
      reader.run(async (batch, stop) => {
        watch.begin();
        await handler(batch, stop);
        watch.did(batch.entries.length);
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
  const seconds = await watch.seconds;
  stop.abort();
  await running;
  await assertJudged(metrics, count);
  await assertCommitted(brokers, topic, `bench-${id}`, records);
  await removeAll(client, keys);
  return count / seconds;
}

/** What was not committed would be judged again: it does not count as done. */
async function assertCommitted(brokers, topic, groupId, records) {
  await withAdmin({ brokers }, async (admin) => {
    const [{ partitions }] = await admin.fetchOffsets({ groupId, topics: [topic] });
    const committed = partitions.reduce((sum, { offset }) => sum + Math.max(0, Number(offset)), 0);
    if (committed !== records) throw new Error(`committed ${committed} of ${records} records`);
    await admin.deleteGroups([groupId]);
  });
}

/** The least that a program can do which reads outcomes: parse each, commit each batch as kafkajs does by itself. */
async function eachBatch({ brokers, topic, count, records }) {
  const consumer = bareKafka(brokers).consumer({ groupId: `bench-${randomBytes(4).toString('hex')}` });
  const watch = stopwatch(records);
  let failures = 0;
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    async eachBatch({ batch }) {
      watch.begin();
      for (const { value } of batch.messages) {
        const parsed = JSON.parse(value.toString());
        if (!(Array.isArray(parsed) ? parsed.every(({ success }) => success) : parsed.success)) failures += 1;
      }
      watch.did(batch.messages.length);
    },
  });
  const seconds = await watch.seconds;
  await consumer.disconnect();
  if (failures === 0) throw new Error('nothing was parsed');
  return count / seconds;
}

/** Sends as the publisher would make them of this load: its batches, a record per channel each. */
async function publishedBytes(brokers) {
  const topic = `bench-published-${randomBytes(4).toString('hex')}`;
  await makeTopic(brokers, topic);
  const all = outcomes(PUBLISHED).map(({ agoMs, ...outcome }) => outcome);
  const sends = [];
  for (let from = 0; from < all.length; from += BATCH) {
    const records = new Map();
    for (const outcome of all.slice(from, from + BATCH)) {
      const texts = records.get(outcome.channel) ?? [];
      records.set(outcome.channel, texts);
      texts.push(JSON.stringify({ ...outcome, agoMs: 100 }));
    }
    sends.push([...records].map(([key, texts]) => ({ key, value: `[${texts.join(',')}]` })));
  }
  return { topic, all, sends };
}

/** From the first `publish()` until the brokers have acknowledged the last outcome. */
async function published(brokers, { topic, all }) {
  const publisher = createPublisher({ kafka: { brokers, topic }, batchSize: BATCH });
  publisher.publish(all[0]);
  await publisher.flush();
  const startedAt = performance.now();
  for (let from = 0; from < all.length; from += BATCH) {
    for (const outcome of all.slice(from, from + BATCH)) publisher.publish(outcome);
    while (publisher.counts().buffered >= MOST_WAITING) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  if (!(await publisher.flush({ timeoutMs: 60_000 }))) throw new Error('the publisher could not send all');
  const seconds = (performance.now() - startedAt) / 1_000;
  const { sent } = publisher.counts();
  await publisher.close();
  if (sent !== all.length + 1) throw new Error(`sent ${sent} of ${all.length + 1} outcomes`);
  return all.length / seconds;
}

/** The same records in the same sends, made beforehand, one send after the other as an idempotent producer wants it. */
async function sent(brokers, { topic, all, sends }) {
  const producer = await openProducer(brokers);
  await producer.send({ topic, acks: -1, messages: sends[0].slice(0, 1) });
  const startedAt = performance.now();
  for (const messages of sends) await producer.send({ topic, acks: -1, messages });
  const seconds = (performance.now() - startedAt) / 1_000;
  await producer.disconnect();
  return all.length / seconds;
}
