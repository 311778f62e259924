import kafkajs from 'kafkajs';
import { closeRedis, openRedis, type RedisClient, whenReady } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import { withAdmin } from '../../src/transport/kafka/client.js';
import { createKafkaReader, type KafkaReaderOptions } from '../../src/transport/kafka/reader.js';
import { createTopics } from '../../src/transport/kafka/topic.js';
import { createKafkaWriter, type KafkaWriterOptions } from '../../src/transport/kafka/writer.js';
import type { DeadLetter, LogReader, LogWriter } from '../../src/transport/port.js';
import { plainKafka, uniqueTopic } from '../support/kafka.js';
import { sharedRedisUrl, uniquePrefix } from '../support/redis.js';

/** A topic of the test's own, and everything that reads and writes it. */
export type KafkaLog = {
  brokers: string;
  topic: string;
  keys: Keys;
  client: RedisClient;
  partitions: number;
  handOverMs: number;
  partitionOf(channel: string): number;
  reader(options?: Partial<KafkaReaderOptions>): LogReader;
  writer(options?: Partial<KafkaWriterOptions>): LogWriter;
  /** As any program would: a record with this value, to this partition or that of the key. */
  append(value: string | Buffer | null, where?: { partition?: number; key?: string }): Promise<void>;
  appendForeign(partition: number, fields: Record<string, string>): Promise<void>;
  deadLetters(): Promise<DeadLetter[]>;
  close(): Promise<void>;
};

export type KafkaLogOptions = { partitions?: number; topic?: string; prefix?: string; redisUrl?: string };

export async function openKafkaLog(
  brokers: string,
  { partitions = 4, topic = uniqueTopic(), prefix = uniquePrefix(), redisUrl = sharedRedisUrl() }: KafkaLogOptions = {},
): Promise<KafkaLog> {
  const keys = new Keys(prefix);
  const client = openRedis(redisUrl, 'commands');
  const connection = { brokers: brokers.split(',') };
  const kafka = plainKafka(brokers);
  const producer = kafka.producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner });
  const writers: LogWriter[] = [];
  let shared: LogWriter | undefined;
  await Promise.all([
    whenReady(client),
    producer.connect(),
    withAdmin(connection, (admin) => createTopics(admin, { topic, partitions, replicas: 1, retentionMs: 3_600_000 })),
  ]);
  const partition = kafkajs.Partitioners.DefaultPartitioner();
  const partitionMetadata = Array.from({ length: partitions }, (_, n) => ({
    ...{ partitionErrorCode: 0, partitionId: n, leader: 1, replicas: [1], isr: [1] },
  }));

  async function append(value: string | Buffer | null, where: { partition?: number; key?: string } = {}) {
    await producer.send({ topic, messages: [{ value, ...where }] });
  }
  return {
    ...{ brokers, topic, keys, client, partitions, append },
    handOverMs: 5_000,
    partitionOf: (channel) => partition({ topic, partitionMetadata, message: { key: channel, value: '' } }),
    reader: (options = {}) => createKafkaReader({ ...connection, client, keys, topic, group: topic, ...options }),
    writer(options) {
      if (options === undefined && shared) return shared;
      const writer = createKafkaWriter({ ...connection, topic, ...options });
      if (options === undefined) shared = writer;
      writers.push(writer);
      return writer;
    },
    async appendForeign(n, fields) {
      await append(JSON.stringify(fields), { partition: n });
    },
    deadLetters: () => readDeadLetters(brokers, topic),
    async close() {
      await Promise.all([closeRedis(client), producer.disconnect(), ...writers.map((writer) => writer.close())]);
    },
  };
}

/** All of `<topic>.dead` as it is now. */
async function readDeadLetters(brokers: string, topic: string): Promise<DeadLetter[]> {
  const kafka = plainKafka(brokers);
  const dead = `${topic}.dead`;
  const [end] = await withAdmin({ brokers: brokers.split(',') }, (admin) => admin.fetchTopicOffsets(dead));
  const letters: DeadLetter[] = [];
  const wanted = Number(end!.high);
  if (wanted === 0) return letters;
  const consumer = kafka.consumer({ groupId: uniqueTopic(), maxWaitTimeInMs: 100 });
  await consumer.connect();
  await consumer.subscribe({ topics: [dead], fromBeginning: true });
  await new Promise<void>((resolve, reject) => {
    const read = async () => {
      await consumer.run({
        async eachMessage({ message }) {
          const header = (name: string) => String(message.headers?.[name] ?? '');
          letters.push({
            reason: header('reason'),
            partition: header('partition'),
            position: header('position'),
            index: Number(header('index')),
            raw: String(message.value),
          });
          if (letters.length === wanted) resolve();
        },
      });
    };
    read().catch(reject);
  });
  await consumer.disconnect();
  return letters;
}
