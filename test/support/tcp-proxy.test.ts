import { Redis } from 'ioredis';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { sharedRedisUrl, uniquePrefix } from './redis.js';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.js';
import { until } from './wait.js';

let proxy: TcpProxy;
let direct: Redis;
let client: Redis;
let key: string;

beforeEach(async () => {
  proxy = await startTcpProxy({ port: Number(new URL(sharedRedisUrl()).port) });
  direct = open(sharedRedisUrl());
  client = open(proxy.url);
  key = `${uniquePrefix()}n`;
});

function open(url: string): Redis {
  // No retries: a test has to see what the connection saw.
  const redis = new Redis(url, { retryStrategy: () => null, maxRetriesPerRequest: 0 });
  redis.on('error', () => {});
  onTestFinished(() => redis.disconnect());
  return redis;
}

test('bytes pass in both directions', async () => {
  await client.set(key, 'x'.repeat(300_000));
  expect(await client.strlen(key)).toBe(300_000);
  expect(proxy.accepted()).toBe(1);
});

test('a swallowed reply: the command ran, the caller got no answer', async () => {
  await client.ping();
  const swallowed = proxy.swallowReplyTo(/incr/i);
  await client.set(key, 1);
  await expect(client.incr(key)).rejects.toThrow();
  await swallowed;
  expect(await direct.get(key)).toBe('2');
});

test('pause holds bytes back, resume lets them go on', async () => {
  await client.ping();
  proxy.pause();
  let answered = false;
  const answer = client.incr(key).then(() => {
    answered = true;
  });
  // Two round trips of the direct connection: had the bytes passed, they would be there by now.
  await direct.ping();
  await direct.ping();
  expect([answered, await direct.exists(key)]).toEqual([false, 0]);
  proxy.resume();
  await answer;
  expect(await direct.get(key)).toBe('1');
});

test('delay slows both directions, and ends', async () => {
  await client.ping();
  proxy.delay(60);
  const startedAt = performance.now();
  await Promise.all([client.incr(key), client.incr(key)]);
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(118);
  proxy.delay(0);
  const endedAt = performance.now();
  await client.incr(key);
  expect(performance.now() - endedAt).toBeLessThan(100);
});

test('refuse cuts and refuses until accept', async () => {
  await client.ping();
  await proxy.refuse();
  await until(() => client.status === 'end', { what: 'the connection to be cut' });
  await expect(failureOf(open(proxy.url))).resolves.toMatch(/ECONNREFUSED/);
  await proxy.accept();
  expect(await open(proxy.url).ping()).toBe('PONG');
});

function failureOf(redis: Redis): Promise<string> {
  return new Promise((resolve) => redis.once('error', (error) => resolve(error.message)));
}
