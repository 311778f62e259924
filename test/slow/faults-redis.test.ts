import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { closeRedis, openRedis, type RedisClient } from '../../src/redis/client.js';
import { metric } from '../process/workers.js';
import { openFleet, randomFrom, SHORT, seedOf, startLoad } from '../support/fleet.js';
import { sharedRedisUrl, startRedis } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';
import { verifyAtEnd } from '../support/verifier.js';
import { sleep, until } from '../support/wait.js';

function admin(url: string): RedisClient {
  const client = openRedis(url, 'queue-worker');
  releaseAtEnd(() => closeRedis(client));
  return client;
}

it.concurrent('a worker that was stopped beyond its lease and goes on as a zombie changes nothing', async () => {
  const seed = seedOf('zombie');
  const redis = sharedRedisUrl();
  const fleet = await openFleet({ redis });
  const zombie = await fleet.start('outcomes');
  await fleet.start('recovery', 'alerts');
  await until(() => metric(zombie, 'fuseline_log_shards_owned'), { what: 'four shards', accept: (n) => n === 4 });
  const running = startLoad(fleet.publisher, randomFrom(seed));
  await sleep(1_500);
  zombie.kill('SIGSTOP');
  const heir = await fleet.start('outcomes');
  await until(() => metric(heir, 'fuseline_log_shards_owned'), {
    what: 'the other to have taken every shard',
    accept: (n) => n === 4,
    timeoutMs: 20_000,
  });
  await sleep(1_000);
  zombie.kill('SIGCONT');
  await sleep(2_500);
  expect(await running.stop()).toBe(true);
  const end = { url: redis, prefix: fleet.prefix, policy: SHORT, receiver: fleet.receiver, merged: true };
  const verdict = await verifyAtEnd(end, 10_000);
  console.info('zombie:', JSON.stringify(verdict));
  expect(verdict.problems).toEqual([]);
  expect(verdict.blocks).toBeGreaterThan(2);
}, 120_000);

it.concurrent('forgotten scripts, cut connections, five frozen seconds and a restart from its file, all under load, cost nothing and count nothing twice', async () => {
  const seed = seedOf('redis');
  const dir = await mkdtemp(join(tmpdir(), 'fuseline-aof-'));
  releaseAtEnd(() => rm(dir, { recursive: true, force: true }));
  const args = ['--appendonly', 'yes', '--appendfsync', 'always'];
  const server = await startRedis({ dir, args });
  const fleet = await openFleet({ redis: server.url });
  await fleet.start('outcomes', 'recovery', 'alerts');
  await fleet.start('outcomes', 'recovery');
  const client = admin(server.url);
  const running = startLoad(fleet.publisher, randomFrom(seed));
  for (let i = 0; i < 3; i += 1) {
    await sleep(700);
    await client.script('FLUSH');
    await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  }
  await sleep(1_000);
  process.kill(server.pid, 'SIGSTOP');
  await sleep(5_000);
  process.kill(server.pid, 'SIGCONT');
  await sleep(2_000);
  process.kill(server.pid, 'SIGKILL');
  await sleep(500);
  await startRedis({ dir, args, port: server.port });
  await sleep(4_000);
  expect(await running.stop()).toBe(true);
  const end = { url: server.url, prefix: fleet.prefix, policy: SHORT, receiver: fleet.receiver, merged: true };
  const verdict = await verifyAtEnd(end, 15_000);
  console.info('redis:', JSON.stringify(verdict));
  expect(verdict.problems).toEqual([]);
  expect(verdict.blocks).toBeGreaterThan(2);
}, 120_000);
