import kafkajs from 'kafkajs';
import { beforeAll, describe, expect, it } from 'vitest';
import { withAdmin } from '../../src/transport/kafka/client.js';
import { createTopics } from '../../src/transport/kafka/topic.js';
import { plainKafka, sharedKafka } from '../support/kafka.js';
import { releaseAtEnd } from '../support/releasers.js';
import { until } from '../support/wait.js';
import { queued } from '../transport/conformance.js';
import { judgesOf, pattern, text, untilRead } from './judge.js';
import { type KafkaLog, type KafkaLogOptions, openKafkaLog } from './kafka-log.js';

beforeAll(sharedKafka, 120_000);

async function open(options: KafkaLogOptions = {}): Promise<KafkaLog> {
  const log = await openKafkaLog(await sharedKafka(), options);
  releaseAtEnd(log.close);
  return log;
}

const CHANNELS = ['ALIPAY', '微信支付', 'stripe/eu-1', 'sms-aliyun', 'WECHAT', 'c6'];

/** Sends outcomes `from` to `to` of every channel, a few at a time, as publishers would. */
async function send(log: KafkaLog, from: number, to: number, channels: readonly string[] = CHANNELS): Promise<void> {
  const writer = log.writer();
  const results = pattern(from, to);
  for (let i = 0; i < results.length; i += 5) {
    const some = results.slice(i, i + 5);
    const batch = channels.flatMap((channel) => some.map((success) => queued({ channel, success })));
    expect(await writer.send(batch)).toMatchObject({ sent: batch.length });
  }
}

const admin = <T>({ brokers }: KafkaLog, use: Parameters<typeof withAdmin<T>>[1]) =>
  withAdmin({ brokers: brokers.split(',') }, use);

describe.concurrent('windows equal what was sent, each outcome once and in order,', () => {
  it('4.01 when a second consumer joins in the middle, then a third, then only one is left', async () => {
    const log = await open({ partitions: 6 });
    const judges = await judgesOf(log);
    const one = judges.start();
    await send(log, 0, 60);
    const two = judges.start();
    await send(log, 60, 120);
    await until(() => two.reader.progress().owned.length === 3, { what: 'half of the partitions', timeoutMs: 20_000 });
    const three = judges.start();
    await send(log, 120, 180);
    await until(() => three.reader.progress().owned.length === 2, { what: 'a third of them', timeoutMs: 20_000 });
    await Promise.all([one.stop(), send(log, 180, 240)]);
    await Promise.all([two.stop(), send(log, 240, 300)]);
    await judges.untilWindows(CHANNELS, pattern(0, 300), [three]);
  });

  it('when the whole topic is read again by a new group', async () => {
    const log = await open();
    const judges = await judgesOf(log);
    const first = judges.start();
    await send(log, 0, 50);
    await untilRead([first], 4);
    const second = judges.start({ group: `${log.topic}-again` });
    await untilRead([second], 4);
    expect(second.reader.progress().counters.entries_read).toBe(60);
    await send(log, 50, 60);
    await judges.untilWindows(CHANNELS, pattern(0, 60), [first, second]);
  });

  it('when partitions are added, of the channels that stay and of those that move', async () => {
    const log = await open({ partitions: 2 });
    const judges = await judgesOf(log);
    const judge = judges.start();
    await send(log, 0, 20);
    await untilRead([judge], 2);
    await admin(log, (one) => one.createPartitions({ topicPartitions: [{ topic: log.topic, count: 5 }] }));
    const writer = log.writer({});
    for (const channel of CHANNELS)
      for (const success of pattern(20, 30)) await writer.send([queued({ channel, success })]);
    await judges.untilWindows(CHANNELS, pattern(0, 30), [judge]);
    expect(judge.reader.progress().owned).toHaveLength(5);
  }, 60_000);

  it('when the topic was deleted and made again while nobody read, though the new one is longer already', async () => {
    const log = await open();
    const judges = await judgesOf(log);
    const before = judges.start();
    await send(log, 0, 10);
    await untilRead([before], 4);
    await before.stop();
    await recreate(log);
    const writer = log.writer({});
    // One entry each: more entries, and so higher offsets, than the old topic had.
    for (const success of pattern(10, 20)) await writer.send(CHANNELS.map((channel) => queued({ channel, success })));
    const after = judges.start();
    await judges.untilWindows(CHANNELS, pattern(0, 20), [after]);
    expect(after.reader.progress().counters.position_resets).toBeGreaterThan(0);
    expect(after.reader.progress().owned.every((name) => name.endsWith('/2'))).toBe(true);
    expect(after.warnings).toContain('this partition was deleted and made again: its entries count as new');
  });

  it('when the topic is deleted and made again under a consumer that reads', async () => {
    const log = await open();
    const judges = await judgesOf(log);
    const judge = judges.start();
    await send(log, 0, 30);
    await untilRead([judge], 4);
    await recreate(log);
    const writer = log.writer({});
    for (const success of pattern(30, 33)) await writer.send(CHANNELS.map((channel) => queued({ channel, success })));
    await judges.untilWindows(CHANNELS, pattern(0, 33), [judge]);
  }, 60_000);

  it('when entries were deleted unread: what is left counts, what was lost is told', async () => {
    const log = await open({ partitions: 1 });
    const judges = await judgesOf(log);
    const before = judges.start();
    await send(log, 0, 10, ['A']);
    await untilRead([before], 1);
    await before.stop();
    await send(log, 10, 40, ['A']);
    // Two records were read, six more were sent: offset 5 is the fourth of these.
    await admin(log, async (one) => {
      await one.fetchTopicOffsets(log.topic);
      await one.deleteTopicRecords({ topic: log.topic, partitions: [{ partition: 0, offset: '5' }] });
    });
    const after = judges.start();
    await judges.untilWindows(['A'], [...pattern(0, 10), ...pattern(25, 40)], [after]);
    expect(after.reader.progress().counters.entries_lost_to_cap).toBe(3);
    expect(after.warnings).toContain('entries were deleted unread');
  });
});

/** Deletes the topic and makes it anew, once the brokers have let go of the old one. */
async function recreate(log: KafkaLog): Promise<void> {
  const { topic, partitions } = log;
  await admin(log, async (one) => {
    await one.deleteTopics({ topics: [topic] });
    await until(() => createTopics(one, { topic, partitions, replicas: 1, retentionMs: 3_600_000 }), {
      what: 'the new topic',
      accept: (made) => made.includes(topic),
    });
  });
}

describe.concurrent('a consumer', () => {
  it('that kafkajs gives up for good is replaced, until it may join', async () => {
    const log = await open({ partitions: 1 });
    await send(log, 0, 5, ['A']);
    const judges = await judgesOf(log);
    // A foreign program in the same group, which shares partitions out in a way that we do not know: no repetition cures that.
    const foreign = plainKafka(log.brokers).consumer({
      groupId: log.topic,
      partitionAssigners: [(parts) => ({ ...kafkajs.PartitionAssigners.roundRobin(parts), name: 'foreign' })],
    });
    const joined = new Promise((resolve) => foreign.on(foreign.events.GROUP_JOIN, resolve));
    await foreign.connect();
    await foreign.subscribe({ topics: [log.topic] });
    await foreign.run({ eachBatch: async () => {} });
    await joined;
    const judge = judges.start();
    const { restarts } = await until(() => judge.reader.progress().counters, {
      what: 'the second try',
      accept: (counters) => counters.restarts === 2,
    });
    expect(restarts).toBe(2);
    expect(judge.reader.progress().paused).toMatch(/^Kafka cannot be used: .*protocol/);
    await foreign.disconnect();
    await judges.untilWindows(['A'], pattern(0, 5), [judge]);
    await until(() => judge.reader.progress().paused === undefined, { what: 'no trouble' });
  });

  it('4.04 survives errors that pass, however many there were before', async () => {
    const log = await open({ partitions: 1 });
    const judges = await judgesOf(log);
    let calls = 0;
    const judge = judges.start({}, (handler) => async (batch, signal) => {
      calls += 1;
      if (calls % 2 === 1) throw new Error('the test refuses');
      await handler(batch, signal);
    });
    for (let n = 0; n < 10; n += 1) {
      await send(log, n * 5, n * 5 + 5, ['A']);
      await until(async () => (await judges.window('A')) === text(pattern(0, n * 5 + 5)), { what: `round ${n}` });
    }
    expect(judge.reader.progress().counters.redeliveries).toBeGreaterThanOrEqual(10);
    expect(judge.reader.progress().counters.restarts).toBeUndefined();
  });

  it('4.10 keeps its place in the group though a batch takes longer than the session, and reads the other partitions', async () => {
    const log = await open({ partitions: 2 });
    const judges = await judgesOf(log);
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const slow = CHANNELS.find((channel) => log.partitionOf(channel) === 0)!;
    const other = CHANNELS.find((channel) => log.partitionOf(channel) === 1)!;
    const judge = judges.start({ sessionMs: 6_000 }, (handler) => async (batch, signal) => {
      if (batch.partition.split('/')[2] === '0') await gate;
      await handler(batch, signal);
    });
    await send(log, 0, 5, [slow]);
    const began = performance.now();
    for (let n = 0; performance.now() - began < 9_000; n += 5) {
      await send(log, n, n + 5, [other]);
      await until(async () => (await judges.window(other)) === text(pattern(0, n + 5)), {
        what: 'the other partition',
      });
      await new Promise((resolve) => setTimeout(resolve, 1_000));
    }
    expect(judge.reader.progress().counters).toMatchObject({ rebalances: 1 });
    release();
    await judges.untilWindows([slow], pattern(0, 5), [judge]);
    expect(judge.reader.progress().counters).toMatchObject({ rebalances: 1 });
  }, 40_000);

  it('reads a topic with the clocks of its producers, and warns loudly', async () => {
    const log = await open();
    await admin(log, (one) =>
      one.alterConfigs({
        validateOnly: false,
        resources: [
          { type: 2, name: log.topic, configEntries: [{ name: 'message.timestamp.type', value: 'CreateTime' }] },
        ],
      }),
    );
    const judges = await judgesOf(log);
    const judge = judges.start();
    await send(log, 0, 10);
    await judges.untilWindows(CHANNELS, pattern(0, 10), [judge]);
    expect(judge.warnings.join()).toContain('is stamped by the clocks of its producers: set message.timestamp.type');
  });

  it('waits for a topic that does not exist, says which command makes it, and makes none itself', async () => {
    const log = await open();
    const topic = `${log.topic}-later`;
    const judges = await judgesOf(log);
    const judge = judges.start({ topic });
    await until(() => judge.reader.progress().paused?.includes('fuseline kafka create-topic'), { what: 'the advice' });
    expect(await admin(log, (one) => one.listTopics())).not.toContain(topic);
    await admin(log, (one) => createTopics(one, { topic, partitions: 2, replicas: 1, retentionMs: 3_600_000 }));
    await until(() => judge.reader.progress().owned.length === 2, { what: 'its partitions', timeoutMs: 20_000 });
    await until(() => judge.reader.progress().paused === undefined, { what: 'no trouble' });
  });
});
