import { closeRedis, openRedis, type RedisClient } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import { sharedRedisUrl, uniquePrefix } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';

export type Place = { prefix: string; keys: Keys; client: RedisClient; env: Record<string, string> };

/** Keys of the test's own, a client to look at them, and the settings that lead a command there. */
export function place(url = sharedRedisUrl()): Place {
  const prefix = uniquePrefix();
  const client = openRedis(url, 'queue-worker');
  releaseAtEnd(() => closeRedis(client));
  return { prefix, keys: new Keys(prefix), client, env: { FUSELINE_REDIS_URL: url, FUSELINE_PREFIX: prefix } };
}
