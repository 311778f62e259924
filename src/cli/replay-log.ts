import { addressOf } from '../process/clients.js';
import { Keys } from '../redis/keys.js';
import type { PastEntry, Reading, TimeRange } from '../replay/past.js';
import { readLog } from '../replay/source-log.js';
import type { Settings } from '../settings/definitions.js';
import { kafkaConnection } from '../settings/kafka-connection.js';
import { readShardRanges } from '../transport/redis-stream/range.js';
import { CliError, reasonOf } from './failure.js';
import { withConnections } from './redis.js';

type Use<T> = (entries: AsyncIterable<readonly PastEntry[]>) => Promise<T>;

/** Gives what the log that the settings name holds of a time. @throws {CliError} it cannot be read */
export async function withLog<T>(settings: Settings, range: TimeRange, reading: Reading, use: Use<T>): Promise<T> {
  const how = { range, reading, logClockLeadMs: settings.logClockLead };
  if (settings.transport === 'kafka') return withTopic(settings, how, use);
  return withConnections(async ({ open }) => {
    const client = await open(settings.logRedisUrl, 'commands');
    try {
      return await use(readLog(await readShardRanges(client, new Keys(settings.prefix), range), how));
    } catch (error) {
      throw unreadable(`the log in Redis at ${addressOf(settings.logRedisUrl)}`, reasonOf(error), error);
    }
  });
}

async function withTopic<T>(settings: Settings, how: Parameters<typeof readLog>[1], use: Use<T>): Promise<T> {
  const { rootCause } = await import('../transport/kafka/client.js');
  const { readTopicRange } = await import('../transport/kafka/range.js');
  const connection = kafkaConnection(settings);
  try {
    const topic = await readTopicRange(connection, settings.kafkaTopic, how.range, (sentence) =>
      how.reading.endsEarly.push(sentence),
    );
    try {
      return await use(readLog(topic.partitions, how));
    } finally {
      await topic.close();
    }
  } catch (error) {
    const where = `the topic ${settings.kafkaTopic} at ${connection.brokers.join(',')}`;
    throw unreadable(where, rootCause(error).message, error);
  }
}

function unreadable(what: string, reason: string, error: unknown): unknown {
  if (error instanceof CliError) return error;
  return new CliError(`${what} cannot be read: ${reason}`, 1, { cause: error });
}
