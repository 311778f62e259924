import { expect, it } from 'vitest';
import { housekeep } from '../../src/recovery/housekeeping.js';
import { logChores } from '../../src/recovery/log-chores.js';
import { closeRedis, openRedis, whenReady } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import { readShards, setShards } from '../../src/transport/redis-stream/shards.js';
import { sharedRedisUrl, uniquePrefix } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';

async function log() {
  const client = openRedis(sharedRedisUrl(), 'commands');
  releaseAtEnd(() => closeRedis(client));
  await whenReady(client);
  const keys = new Keys(uniquePrefix());
  return { client, keys, run: (maxLen = 1_000_000) => housekeep(logChores({ client, keys, maxLen })) };
}

it('finds nothing to do before anybody has written, and changes nothing', async () => {
  const { client, keys, run } = await log();
  expect(await run()).toEqual({
    'dead workers': 0,
    'shards no longer used': 0,
    'old dead letters': 0,
    'entries over the cap': 0,
  });
  expect(await client.exists(keys.outcomes(0), keys.workers)).toBe(0);
});

it('removes workers that have been silent for a minute, and keeps the others', async () => {
  const { client, keys, run } = await log();
  const [seconds] = await client.time();
  const nowMs = Number(seconds) * 1_000;
  for (const [name, ago] of [
    ['dead', 61_000],
    ['silent', 50_000],
    ['alive', 0],
  ] as const)
    await client.zadd(keys.workers, nowMs - ago, name);
  expect(await run()).toMatchObject({ 'dead workers': 1 });
  expect(await client.zrange(keys.workers, '0', '-1')).toEqual(['silent', 'alive']);
});

it('brings a shard that foreign programs fill back to its cap, however far it is over', async () => {
  const { client, keys, run } = await log();
  await readShards(client, keys, 1);
  for (let i = 0; i < 50; i += 1) {
    const pipeline = client.pipeline();
    for (let j = 0; j < 100; j += 1) pipeline.xadd(keys.outcomes(0), '*', 'channel', 'A', 'success', '1');
    await pipeline.exec();
  }
  expect(await run(1_000)).toMatchObject({ 'entries over the cap': 4_000 });
  expect(await client.xlen(keys.outcomes(0))).toBe(1_000);
  expect(await run(1_000)).toMatchObject({ 'entries over the cap': 0 });
});

it('keeps 10,000 dead letters at most', async () => {
  const { client, keys, run } = await log();
  for (let i = 0; i < 21; i += 1) {
    const pipeline = client.pipeline();
    for (let j = 0; j < 500; j += 1) pipeline.xadd(keys.dead, '*', 'v', '1');
    await pipeline.exec();
  }
  expect(await run()).toMatchObject({ 'old dead letters': 500 });
  expect(await client.xlen(keys.dead)).toBe(10_000);
});

it('keeps a shard that is no longer used until it is read to its end', async () => {
  const { client, keys, run } = await log();
  await setShards(client, keys, 2);
  // An id of long ago: nobody has written to it for a while.
  await client.xadd(keys.outcomes(1), '1-1', 'channel', 'A', 'success', '1');
  await setShards(client, keys, 1);
  expect(await run()).toMatchObject({ 'shards no longer used': 0 });
  await client.xgroup('CREATE', keys.outcomes(1), 'fuseline', '1-1');
  expect(await run()).toMatchObject({ 'shards no longer used': 1 });
  expect(await client.exists(keys.outcomes(1))).toBe(0);
});
