import { Cluster, Redis } from 'ioredis';
import { expect, test } from 'vitest';
import { startCluster } from './redis-cluster.js';
import { startSentinel } from './redis-sentinel.js';
import { releaseAtEnd } from './releasers.js';
import { until } from './wait.js';

test.concurrent('a cluster takes keys on all three primaries, and a replica takes over from a killed one', async () => {
  const { nodes } = await startCluster();
  const cluster = new Cluster(nodes, { clusterRetryStrategy: () => 100 });
  cluster.on('error', () => {});
  releaseAtEnd(async () => cluster.disconnect());
  for (let i = 0; i < 30; i += 1) await cluster.set(`k${i}`, i);
  const primaries = nodes.filter(({ role }) => role === 'primary');
  const sizes = await Promise.all(primaries.map(({ url }) => withClient(url, (client) => client.dbsize())));
  expect(Math.min(...sizes)).toBeGreaterThan(0);
  expect(sizes.reduce((sum, size) => sum + size)).toBe(30);

  process.kill(primaries[0]!.pid, 'SIGKILL');
  const role = () => withClient(nodes[3]!.url, async (client) => (await client.role())[0]);
  await until(role, { what: 'its replica to take over', accept: (now) => now === 'master', timeoutMs: 20_000 });
});

test.concurrent('sentinels lead to the primary, and to the other server after it was killed', async () => {
  const { sentinels, name, primary, killPrimary, servers } = await startSentinel();
  expect(await primary()).toBe(servers[0]);
  const redis = new Redis({ sentinels, name });
  redis.on('error', () => {});
  releaseAtEnd(async () => redis.disconnect());
  await redis.set('k', 'v');
  await redis.call('WAIT', 1, 5_000);
  expect(await killPrimary()).toBe(servers[1]);
  expect(await until(() => redis.get('k'), { what: 'the client to follow' })).toBe('v');
});

async function withClient<T>(url: string, ask: (client: Redis) => Promise<T>): Promise<T> {
  const client = new Redis(url);
  client.on('error', () => {});
  try {
    return await ask(client);
  } finally {
    client.disconnect();
  }
}
