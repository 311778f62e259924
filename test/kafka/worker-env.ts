import { type Env, rulesFile } from '../process/workers.js';
import { sharedRedisUrl } from '../support/redis.js';
import type { KafkaLog } from './kafka-log.js';

/** Settings of a worker process that reads this log, by rules with which windows keep everything and nothing is blocked. */
export async function workerEnv({ brokers, topic, keys }: KafkaLog): Promise<Env> {
  return {
    FUSELINE_REDIS_URL: sharedRedisUrl(),
    FUSELINE_PREFIX: keys.prefix,
    FUSELINE_TRANSPORT: 'kafka',
    FUSELINE_KAFKA_BROKERS: brokers,
    FUSELINE_KAFKA_TOPIC: topic,
    FUSELINE_KAFKA_GROUP: topic,
    FUSELINE_RULES: await rulesFile({ version: 1, mode: 'on', defaults: { window: 1_000, successRate: 1 } }),
  };
}
