import { expect, it } from 'vitest';
import { readBlockedNow } from '../../src/channel/snapshot.js';
import { bench, rulesOf } from '../reader/support.js';
import { startRedis } from '../support/redis.js';
import { startCluster } from '../support/redis-cluster.js';
import { startSentinel } from '../support/redis-sentinel.js';
import { startTcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/wait.js';

const HOUR = 3_600_000;

it.concurrent('reads a cluster: channels on every node, the feed, a foreign key, and a primary that is killed', async () => {
  const cluster = await startCluster();
  const { write, tell, now, reader, client, keys } = await bench(cluster.url);
  const at = await now();
  const names = Array.from({ length: 30 }, (_, n) => `channel-${n}`);
  await Promise.all(names.map((name) => write(name, { epoch: at, until: at + HOUR })));
  await client.rpush(keys.state('bad'), 'x');
  await client.zadd(keys.agenda, 0, 'bad');
  const fuse = await reader({ rules: rulesOf({ policies: { foreign: {}, healthy: {} } }), resyncMs: 300 });
  expect(names.filter((name) => !fuse.isBlocked(name))).toEqual([]);
  await client.set(keys.blocked('foreign'), '1', 'EX', 1_000);
  await until(() => fuse.isBlocked('foreign'), { what: 'the foreign key' });
  expect(await readBlockedNow(client, keys, 'foreign', 1_000)).toBe(true);
  await until(() => fuse.status().following, { what: 'the feed to be followed' });
  await tell({ channel: 'fed', kind: 'recovered', epoch: at + 1 });
  await until(() => fuse.told.some(({ channel }) => channel === 'fed'), { what: 'the feed' });
  expect(fuse.isBlocked('healthy')).toBe(false);

  process.kill(cluster.nodes[0]!.pid!, 'SIGKILL');
  await until(() => !fuse.status().connected, { what: 'the outage to be noticed' });
  expect(names.filter((name) => !fuse.isBlocked(name))).toEqual([]);
  await until(() => fuse.status().connected, { what: 'the failover', timeoutMs: 30_000 });
  const later = await until(now, { what: 'a time' });
  for (const [n, name] of names.entries()) {
    await until(() => tell({ channel: name, kind: 'held', epoch: later + n }).then(() => true), {
      what: 'the feed to take it',
    });
  }
  await until(() => names.every((name) => fuse.told.some(({ channel }) => channel === name)), {
    what: 'the feed after the failover',
    timeoutMs: 15_000,
  });
}, 90_000);

it.concurrent('follows a failover behind Sentinel', async () => {
  const sentinel = await startSentinel();
  const { write, tell, now, reader } = await bench(sentinel.url);
  const at = await now();
  await write('a', { epoch: at, until: at + HOUR });
  const fuse = await reader({ resyncMs: 300 });
  expect(fuse.isBlocked('a')).toBe(true);
  await sentinel.killPrimary();
  expect(fuse.isBlocked('a')).toBe(true);
  expect(fuse.warnings).toHaveLength(1);
  await until(() => fuse.status().connected, { what: 'the failover', timeoutMs: 30_000 });
  await until(() => tell({ channel: 'b', kind: 'recovered', epoch: at + 1 }).then(() => true), {
    what: 'the new primary',
  });
  await until(() => fuse.told.some(({ channel }) => channel === 'b'), { what: 'the feed', timeoutMs: 15_000 });
}, 90_000);

it.concurrent('a connection cut off without a word is given up, and the reader goes on over a new one', async () => {
  const server = await startRedis();
  const direct = await bench(server.url);
  const proxy = await startTcpProxy({ port: server.port });
  const at = await direct.now();
  const fuse = await direct.reader({ url: proxy.url, resyncMs: 300 });
  await until(() => fuse.status().following, { what: 'the feed to be followed' });
  const before = proxy.accepted();
  proxy.pause();
  await until(() => !fuse.status().connected, { what: 'the silence to be noticed' });
  await direct.write('a', { epoch: at, until: at + HOUR });
  // Either of them alone would come back a second time only after the 10 s that a greeting may take.
  await until(() => proxy.accepted() >= before + 2, { what: 'both connections to be given up', timeoutMs: 7_500 });
  proxy.resume();
  await until(() => fuse.isBlocked('a'), { what: 'the new connection', timeoutMs: 20_000 });
  await direct.tell({ channel: 'b', kind: 'recovered', epoch: at + 1 });
  await until(() => fuse.told.some(({ channel }) => channel === 'b'), { what: 'the feed', timeoutMs: 20_000 });
}, 90_000);
