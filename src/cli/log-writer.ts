import { Keys } from '../redis/keys.js';
import type { Settings } from '../settings/definitions.js';
import { kafkaConnection } from '../settings/kafka-connection.js';
import { lazyKafkaWriter } from '../transport/kafka/lazy.js';
import type { LogWriter } from '../transport/port.js';
import { createRedisStreamWriter } from '../transport/redis-stream/writer.js';
import { withConnections } from './redis.js';

/** Runs `act` with a writer of the log that the settings name, and closes it. @throws {CliError} Redis is not there */
export async function withLogWriter(settings: Settings, act: (writer: LogWriter) => Promise<void>): Promise<void> {
  if (settings.transport === 'kafka') {
    const { kafkaTopic: topic, kafkaCompression: compression } = settings;
    const writer = lazyKafkaWriter({ ...kafkaConnection(settings), topic, compression });
    try {
      await act(writer);
    } finally {
      await writer.close();
    }
    return;
  }
  await withConnections(async ({ open }) => {
    const client = await open(settings.logRedisUrl, 'publish');
    const { shards, streamMaxLen: maxLen, prefix } = settings;
    await act(createRedisStreamWriter({ client, keys: new Keys(prefix), shards, maxLen }));
  });
}
