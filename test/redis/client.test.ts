import { describe, expect, it } from 'vitest';
import { closeRedis, maskUrl, openRedis, parseRedisUrl } from '../../src/redis/client.js';
import { sharedRedisUrl } from '../support/redis.js';
import { until } from '../support/wait.js';

describe('a Redis URL', () => {
  it.each([
    'redis://:p@ss%zz@host:6379',
    'redis://user:p@ss%zz@host',
    'redis://p@ss%zz@host',
    'redis://:p@ss%zz@h:1,h:2',
  ])('with an unencoded @ in its password (%s) is refused, and nothing of the password is shown', (url) => {
    let message = '';
    try {
      parseRedisUrl(url);
    } catch (error) {
      message = (error as Error).message;
    }
    expect(message).toContain('@ is written %40');
    expect(message).not.toContain('ss%zz');
    expect(maskUrl(url)).not.toContain('ss%zz');
  });
});

describe('a client', () => {
  it.each(['commands', 'queue-worker'] as const)(
    'for %s never becomes ready in another database than its URL says',
    async (purpose) => {
      const errors: string[] = [];
      let ready = 0;
      // Redis has 16 databases unless told otherwise.
      const client = openRedis(`${sharedRedisUrl()}/99`, purpose, (error) => void errors.push(error.message));
      client.on('ready', () => {
        ready += 1;
      });
      try {
        await until(() => errors.filter((message) => message.includes('DB index is out of range')).length >= 2, {
          what: 'the second attempt to be refused too',
        });
        expect(ready).toBe(0);
        expect(errors.filter((message) => !message.includes('DB index'))).toEqual([]);
        expect(client.status).not.toBe('ready');
      } finally {
        await closeRedis(client);
      }
    },
  );
});
