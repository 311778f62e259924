import { randomUUID } from 'node:crypto';
import { closeRedis, openRedis, type RedisClient, whenReady } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import type { DeadLetter, LogReader, LogWriter } from '../../src/transport/port.js';
import type { ReaderOptions } from '../../src/transport/redis-stream/options.js';
import { createRedisStreamReader } from '../../src/transport/redis-stream/reader.js';
import { createRedisStreamWriter, type WriterOptions } from '../../src/transport/redis-stream/writer.js';
import { uniquePrefix } from '../support/redis.js';

/** A log on Redis Streams of the test's own, with every client that it opens. */
export type RedisLog = {
  keys: Keys;
  client: RedisClient;
  partitions: number;
  reader(options?: Partial<ReaderOptions>): LogReader;
  writer(options?: Partial<WriterOptions>): LogWriter;
  append(shard: number, fields: Record<string, string>): Promise<string>;
  appendForeign(shard: number, fields: Record<string, string>): Promise<void>;
  deadLetters(): Promise<DeadLetter[]>;
  close(): Promise<void>;
};

export async function openRedisLog(url: string, prefix = uniquePrefix()): Promise<RedisLog> {
  const keys = new Keys(prefix);
  const client = openRedis(url, 'commands');
  const publish = openRedis(url, 'publish');
  await Promise.all([whenReady(client), whenReady(publish)]);
  const append = async (shard: number, fields: Record<string, string>) =>
    (await client.xadd(keys.outcomes(shard), '*', ...Object.entries(fields).flat()))!;
  return {
    keys,
    client,
    partitions: 4,
    reader: (options = {}) =>
      createRedisStreamReader({
        client,
        openClient: () => openRedis(url, 'blocking'),
        keys,
        worker: randomUUID(),
        ...options,
      }),
    writer: (options = {}) => createRedisStreamWriter({ client: publish, keys, ...options }),
    append,
    async appendForeign(shard, fields) {
      await append(shard, fields);
    },
    async deadLetters() {
      const entries = await client.xrange(keys.dead, '-', '+');
      return entries.map(([, flat]) => {
        const fields = new Map<string, string>();
        for (let i = 0; i < flat.length; i += 2) fields.set(flat[i]!, flat[i + 1]!);
        const text = (name: string) => fields.get(name) ?? '';
        return {
          reason: text('reason'),
          partition: text('partition'),
          position: text('position'),
          index: Number(text('index')),
          raw: text('raw'),
        };
      });
    },
    async close() {
      await Promise.all([closeRedis(client), closeRedis(publish)]);
    },
  };
}
