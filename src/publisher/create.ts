import { keepInBackground, openLike } from '../redis/background.js';
import { closeRedis, openRedis, type RedisClient } from '../redis/client.js';
import { Keys } from '../redis/keys.js';
import { lazyKafkaWriter } from '../transport/kafka/lazy.js';
import type { KafkaWriterOptions } from '../transport/kafka/writer.js';
import type { LogWriter } from '../transport/port.js';
import { createRedisStreamWriter } from '../transport/redis-stream/writer.js';
import { type Publisher, type PublisherSettings, publishTo } from './publisher.js';

/** How outcomes leave. Exactly one of `url`, `client`, `kafka` and `writer`. */
export type PublisherOptions = Omit<PublisherSettings, 'writer' | 'onClose'> & {
  /** `redis://…`, `redis-cluster://…` or `redis-sentinel://…`: the log on Redis Streams. */
  url?: string;
  /**
   * An ioredis client whose settings are to be used. A connection of our own is opened like it, because an ordinary client repeats
   * commands whose answer was lost; the caller's is neither used nor closed.
   */
  client?: RedisClient;
  /** The log on Kafka. kafkajs is loaded when the first outcomes are sent. */
  kafka?: KafkaWriterOptions;
  /** The writer of another transport. Stays the caller's to close. */
  writer?: LogWriter;
  /** Before every key; as in the workers. */
  prefix?: string;
  /** Number of shards of a log that is new; after that the number kept in Redis holds. */
  shards?: number;
  /** Entries per shard before the oldest are cut off (about); default 1,000,000. */
  maxLen?: number;
};

/**
 * Makes the object that services publish with. Synchronous: the log may be away, now or later; outcomes wait meanwhile.
 *
 * It does not keep the process alive. A process that ends by itself loses what still waits, the last 30 ms of them, more where the log is slow or away;
 * `flush()` or `close()` before the end loses nothing.
 *
 * @throws {RedisUrlError} the URL is none
 * @throws {Error} none, or more than one, of `url`, `client`, `kafka` and `writer`
 */
export function createPublisher<Channel extends string = string>(options: PublisherOptions): Publisher<Channel> {
  const { url, client, kafka, writer, prefix, shards, maxLen, ...rest } = options;
  const given = [url, client, kafka, writer].filter((way) => way !== undefined).length;
  if (given !== 1) throw new Error(`createPublisher wants exactly one of url, client, kafka and writer, got ${given}`);
  if (writer) return publishTo<Channel>({ ...rest, writer });
  if (kafka) {
    const own = lazyKafkaWriter(kafka);
    return publishTo<Channel>({ ...rest, writer: own, onClose: () => own.close() });
  }

  const keys = new Keys(prefix);
  const own = client ? openLike(client) : openRedis(url!, 'publish');
  keepInBackground(own);
  return publishTo<Channel>({
    ...rest,
    writer: createRedisStreamWriter({ client: own, keys, shards, maxLen }),
    onClose: () => closeRedis(own),
  });
}
