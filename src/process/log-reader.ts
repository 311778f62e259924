import { openRedis } from '../redis/client.js';
import { kafkaConnection } from '../settings/kafka-connection.js';
import type { LogReader } from '../transport/port.js';
import { createRedisStreamReader } from '../transport/redis-stream/reader.js';
import type { Context } from './context.js';

/** The reader of the outcome log that the settings name. kafkajs is loaded only where it is used. */
export async function openLogReader({ settings, keys, clients, worker, log }: Context): Promise<LogReader> {
  const watch = clients.log === clients.main ? [] : [clients.main];
  if (settings.transport === 'kafka') {
    const { createKafkaReader } = await import('../transport/kafka/reader.js');
    return createKafkaReader({
      ...kafkaConnection(settings),
      clientId: worker,
      client: clients.log,
      watch,
      worker,
      keys,
      topic: settings.kafkaTopic,
      group: settings.kafkaGroup,
      rewindMs: settings.rewind,
      log,
    });
  }
  return createRedisStreamReader({
    client: clients.log,
    openClient: () => openRedis(settings.logRedisUrl, 'blocking'),
    keys,
    worker,
    shards: settings.shards,
    rewindMs: settings.rewind,
    maxCount: settings.readMaxEntries,
    watch,
    log,
  });
}
