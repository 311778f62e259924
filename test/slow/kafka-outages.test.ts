import kafkajs from 'kafkajs';
import { compressFrameSync } from 'lz4-napi';
import { beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../deploy/local/redis-server.mjs';
import { withAdmin } from '../../src/transport/kafka/client.js';
import { decompressors, registerCodecs } from '../../src/transport/kafka/codecs.js';
import { UNPACKED_MAX_BYTES } from '../../src/transport/kafka/unpacked.js';
import { judgesOf, pattern, text } from '../kafka/judge.js';
import { openKafkaLog } from '../kafka/kafka-log.js';
import { workerEnv } from '../kafka/worker-env.js';
import { metric, startWorker } from '../process/workers.js';
import { plainKafka, sharedKafka } from '../support/kafka.js';
import { startRedis } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';
import { until } from '../support/wait.js';
import { queued } from '../transport/conformance.js';

beforeAll(sharedKafka, 120_000);

const TOO_LARGE = 'it becomes more than the 67108864 bytes that a batch may have unpacked';

it.concurrent('4.12 three workers that are restarted in turn under load lose nothing and count nothing twice', async () => {
  const log = await openKafkaLog(await sharedKafka(), { partitions: 6 });
  releaseAtEnd(log.close);
  const judges = await judgesOf(log);
  const channels = ['A', 'B', 'C', 'D', 'E', 'F', 'G', 'H'];
  const running = [judges.start(), judges.start(), judges.start()];
  let sent = 0;
  let stopped = false;
  const load = (async () => {
    const writer = log.writer();
    while (!stopped && sent < 900) {
      const [success] = pattern(sent, sent + 1);
      await writer.send(channels.map((channel) => queued({ channel, success: success! })));
      sent += 1;
      await new Promise((resolve) => setTimeout(resolve, 15));
    }
  })();
  for (let i = 0; i < 6; i += 1) {
    await running[i % 3]!.stop();
    running[i % 3] = judges.start();
    await until(() => running.reduce((sum, { reader }) => sum + reader.progress().owned.length, 0) === 6, {
      what: 'all partitions to be read',
      timeoutMs: 30_000,
    });
  }
  stopped = true;
  await load;
  await judges.untilWindows(channels, pattern(0, sent), running);
}, 120_000);

it.concurrent('kill -9 of two of three worker processes under load loses nothing and counts nothing twice', async () => {
  const log = await openKafkaLog(await sharedKafka(), { partitions: 6 });
  releaseAtEnd(log.close);
  const env = await workerEnv(log);
  const workers = [1, 2, 3].map(() => startWorker('outcomes', env));
  await until(() => Promise.all(workers.map((one) => metric(one, 'fuseline_log_shards_owned'))), {
    what: 'two partitions each',
    accept: (owned) => owned.join() === '2,2,2',
    timeoutMs: 30_000,
  });
  const judges = await judgesOf(log);
  const channels = Array.from({ length: 12 }, (_, n) => `c${n}`);
  const writer = log.writer();
  for (let sent = 0; sent < 200; sent += 1) {
    const [success] = pattern(sent, sent + 1);
    await writer.send(channels.map((channel) => queued({ channel, success: success! })));
    if (sent === 60) workers[0]!.kill('SIGKILL');
    if (sent === 120) workers[1]!.kill('SIGKILL');
  }
  // Those that are dead are missed after 10 s.
  await until(() => Promise.all(channels.map(judges.window)), {
    what: 'the windows to hold what was sent',
    accept: (windows) => windows.every((window) => window === text(pattern(0, 200))),
    timeoutMs: 40_000,
  });
  await until(() => metric(workers[2]!, 'fuseline_log_lag'), { what: 'no lag', accept: (lag) => lag === 0 });
}, 120_000);

it.concurrent('another Redis in place of the one of before gets everything of the last half minute again, exactly', async () => {
  const port = await freePort();
  const first = await startRedis({ port });
  const log = await openKafkaLog(await sharedKafka(), { partitions: 2, redisUrl: first.url });
  releaseAtEnd(log.close);
  const judges = await judgesOf(log, undefined, first.url);
  const judge = judges.start();
  const channels = ['A', 'B', 'C'];
  const writer = log.writer();
  for (const success of pattern(0, 20)) await writer.send(channels.map((channel) => queued({ channel, success })));
  await judges.untilWindows(channels, pattern(0, 20), [judge]);
  await first.stop();
  // While it is away, and after: one batch is held, others are not even read.
  for (const success of pattern(20, 30)) await writer.send(channels.map((channel) => queued({ channel, success })));
  await startRedis({ port });
  await judges.untilWindows(channels, pattern(0, 30), [judge]);
  expect(judge.reader.progress().counters.rewinds).toBeGreaterThan(0);
  for (const success of pattern(30, 35)) await writer.send(channels.map((channel) => queued({ channel, success })));
  await judges.untilWindows(channels, pattern(0, 35), [judge]);
  expect(judge.reader.progress().counters.restarts).toBeUndefined();
}, 90_000);

// The last fault of a codec is one for the whole process.
describe.concurrent('of batches that are packed otherwise,', () => {
  it.sequential('a batch that cannot be decompressed holds its partition alone, says which and why, and is read once it can be', async () => {
    const log = await openKafkaLog(await sharedKafka(), { partitions: 2 });
    releaseAtEnd(log.close);
    registerCodecs();
    const lz4 = decompressors[3]!;
    const { decompress } = lz4;
    const codecs = kafkajs.CompressionCodecs as unknown as Record<number, () => object>;
    const reading = codecs[3]!;
    releaseAtEnd(async () => {
      lz4.decompress = decompress;
      codecs[3] = reading;
    });
    const names = Array.from({ length: 20 }, (_, n) => `c${n}`);
    const [bad, good] = [0, 1].map((n) => names.find((name) => log.partitionOf(name) === n)!) as [string, string];
    const judges = await judgesOf(log);
    const judge = judges.start();
    // Our producers do not compress so; this one does. The other half stands for a package that does not load on this platform.
    codecs[3] = () => ({ ...reading(), compress: async ({ buffer }: { buffer: Buffer }) => compressFrameSync(buffer) });
    lz4.decompress = () => Promise.reject(new Error('no such package'));
    const producer = plainKafka(log.brokers).producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner });
    await producer.connect();
    releaseAtEnd(() => producer.disconnect());
    const value = JSON.stringify({ channel: bad, success: false });
    await producer.send({ topic: log.topic, compression: 3, messages: [{ key: bad, value }] });
    await until(() => judge.reader.progress().paused, {
      what: 'the reader to say what it cannot read',
      timeoutMs: 15_000,
      accept: (why) => why === `kafka/${log.topic}/0/1: a batch compressed with lz4 cannot be read: no such package`,
    });
    await log.append(JSON.stringify({ channel: good, success: false }), { key: good });
    await until(async () => (await judges.window(good)) === '0', { what: 'the other partition to be read' });
    expect(await judges.window(bad)).toBe('');
    lz4.decompress = decompress;
    await judges.untilWindows([bad, good], [false], [judge]);
    await until(() => judge.reader.progress().paused === undefined, { what: 'the trouble to end' });
    expect(judge.reader.progress().counters.restarts).toBeUndefined();
  }, 60_000);

  it.sequential('a small batch that would become huge holds its partition alone, and the group can be moved past it', async () => {
    const log = await openKafkaLog(await sharedKafka(), { partitions: 2 });
    releaseAtEnd(log.close);
    const names = Array.from({ length: 20 }, (_, n) => `c${n}`);
    const [bad, good] = [0, 1].map((n) => names.find((name) => log.partitionOf(name) === n)!) as [string, string];
    const judges = await judgesOf(log);
    const judge = judges.start();
    const append = (channel: string, success: boolean) =>
      log.append(JSON.stringify({ channel, success }), { key: channel });
    await append(bad, false);
    const producer = plainKafka(log.brokers).producer();
    await producer.connect();
    releaseAtEnd(() => producer.disconnect());
    const messages = [{ partition: 0, value: Buffer.alloc(UNPACKED_MAX_BYTES) }];
    await producer.send({ topic: log.topic, compression: kafkajs.CompressionTypes.GZIP, messages });
    await append(bad, true);
    await until(() => judge.reader.progress().paused, {
      what: 'the reader to say what it does not read',
      timeoutMs: 15_000,
      accept: (why) => why === `kafka/${log.topic}/0/1: a batch compressed with gzip cannot be read: ${TOO_LARGE}`,
    });
    await append(good, false);
    await until(async () => (await judges.window(good)) === '0', { what: 'the other partition to be read' });
    expect(await judges.window(bad)).toBe('0');
    expect(judge.reader.progress().counters.restarts).toBeUndefined();
    await judge.stop();
    await withAdmin({ brokers: log.brokers.split(',') }, (admin) =>
      admin.setOffsets({ groupId: log.topic, topic: log.topic, partitions: [{ partition: 0, offset: '2' }] }),
    );
    const next = judges.start();
    await judges.untilWindows([bad], [false, true], [next]);
    expect(next.reader.progress().counters.entries_lost_to_cap).toBeUndefined();
  }, 60_000);
});
