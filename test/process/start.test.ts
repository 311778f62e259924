import { connect, createServer } from 'node:net';
import { expect, it } from 'vitest';
import { freePort } from '../../deploy/local/redis-server.mjs';
import { openClients } from '../../src/process/clients.js';
import { checkServer, refuseOld } from '../../src/process/server-check.js';
import { closeRedis, openRedis } from '../../src/redis/client.js';
import { sharedRedisUrl, startRedis, uniquePrefix } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';
import { startTcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/wait.js';
import { get, metric, type Role, startRoles, startWorker, untilReady } from './workers.js';

const env = () => ({ FUSELINE_REDIS_URL: sharedRedisUrl(), FUSELINE_PREFIX: uniquePrefix() });

it.each(['outcomes', 'recovery', 'alerts'] as Role[])(
  'the %s worker runs alone: ready, alive, with metrics, and ends with 0 on SIGTERM',
  async (role) => {
    const worker = startWorker(role, env());
    const ready = await untilReady(worker);
    expect(JSON.parse(ready.body)).toEqual({
      status: 'ready',
      checks: { process: { ok: true }, [role]: { ok: true } },
    });
    expect(JSON.parse((await get(worker, '/healthz')).body)).toEqual({ status: 'alive', checks: {} });
    const metrics = (await get(worker, '/metrics')).body;
    for (const name of ['circuit_breaker_state_changes_total', 'fuseline_log_lag', 'fuseline_sweeps_total'])
      expect(metrics).toContain(`# HELP ${name} `);
    worker.kill('SIGTERM');
    expect(await worker.exited).toEqual({ code: 0, signal: null });
    expect(worker.lines.at(-1)).toContain('ended in good order');
  },
);

it('fuseline start runs all roles in one process, or those named', async () => {
  const shared = env();
  const all = startRoles([], shared);
  const two = startRoles(['alerts', 'outcomes'], shared);
  const names = async (worker: typeof all) => Object.keys(JSON.parse((await untilReady(worker)).body).checks);
  expect(await names(all)).toEqual(['process', 'outcomes', 'recovery', 'alerts']);
  expect(await names(two)).toEqual(['process', 'outcomes', 'alerts']);
  await until(
    async () => (await metric(all, 'fuseline_log_shards_owned')) + (await metric(two, 'fuseline_log_shards_owned')),
    {
      what: 'all shards to be read',
      accept: (shards) => shards === 4,
    },
  );
  for (const worker of [all, two]) worker.kill('SIGINT');
  for (const worker of [all, two]) expect(await worker.exited).toEqual({ code: 0, signal: null });
});

it('waits for a Redis that is away at the start: alive, not ready, with the reason; then works without a restart', async () => {
  const port = await freePort();
  const worker = startWorker('outcomes', { FUSELINE_REDIS_URL: `redis://127.0.0.1:${port}` });
  await worker.waitForLine(/Redis at 127\.0\.0\.1:\d+ cannot be used/);
  const red = await get(worker, '/readyz');
  expect(red.status).toBe(503);
  expect(JSON.parse(red.body).checks.process.reason).toBe(
    `Redis at 127.0.0.1:${port} cannot be used: connect ECONNREFUSED 127.0.0.1:${port}`,
  );
  expect((await get(worker, '/healthz')).status).toBe(200);
  await startRedis({ port });
  await untilReady(worker);
});

it('ends with 0 on SIGTERM while it still waits for Redis', async () => {
  const worker = startWorker('alerts', { FUSELINE_REDIS_URL: `redis://127.0.0.1:${await freePort()}` });
  await worker.waitForLine(/cannot be used/);
  worker.kill('SIGTERM');
  expect(await worker.exited).toEqual({ code: 0, signal: null });
});

it('is not ready while Redis is away, with the reason, and never asks for a restart because of it', async () => {
  const server = await startRedis();
  const proxy = await startTcpProxy(server);
  const worker = startRoles([], { FUSELINE_REDIS_URL: proxy.url });
  await untilReady(worker);
  await proxy.refuse();
  const red = await until(() => get(worker, '/readyz'), { what: 'not ready', accept: ({ status }) => status === 503 });
  const { checks } = JSON.parse(red.body);
  for (const role of ['outcomes', 'recovery', 'alerts']) {
    expect(checks[role]).toMatchObject({ ok: false, stuck: false });
    expect(checks[role].reason).toMatch(/Redis/);
  }
  expect((await get(worker, '/healthz')).status).toBe(200);
  await proxy.accept();
  await untilReady(worker);
});

it.each(['SIGTERM', 'SIGINT'] as const)('a second %s ends it at once, with the code that shells know', async (name) => {
  const server = await startRedis();
  const worker = startWorker('alerts', { FUSELINE_REDIS_URL: server.url });
  await untilReady(worker);
  // A frozen Redis answers no farewell, so that a drain takes its time.
  process.kill(server.pid, 'SIGSTOP');
  worker.kill(name);
  await worker.waitForLine(/ending: no new work is taken/);
  worker.kill(name);
  expect(await worker.exited).toEqual({ code: name === 'SIGTERM' ? 143 : 130, signal: null });
});

it('ends with 1 and one clear line when the port for health and metrics is in use', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  releaseAtEnd(async () => void taken.close());
  await until(() => taken.address(), { what: 'the port to be taken' });
  const { port } = taken.address() as { port: number };
  const worker = startWorker('alerts', { ...env(), FUSELINE_HTTP_PORT: `${port}` });
  expect(await worker.exited).toEqual({ code: 1, signal: null });
  expect(worker.lines).toHaveLength(1);
  expect(JSON.parse(worker.lines[0]!)).toMatchObject({
    level: 60,
    msg: `health and metrics: 127.0.0.1:${port} is in use by another process: set httpPort (FUSELINE_HTTP_PORT) to a free port`,
  });
});

it('ends with 2 and a line for each setting that cannot be used', async () => {
  const worker = startWorker('alerts', { FUSELINE_REDIS_URL: 'http://u:secret@x', FUSELINE_SHARDS: '0' });
  expect(await worker.exited).toEqual({ code: 2, signal: null });
  expect(worker.lines).toHaveLength(2);
  expect(worker.lines.join()).not.toContain('secret');
});

it('warns when there are no rules: nothing would be blocked', async () => {
  const worker = startWorker('alerts', env());
  await worker.waitForLine(/there are no rules/);
});

it('refuses a Redis before 7.0 with the version found, and takes Valkey', () => {
  const info = (version: string, more = '') => `# Server\r\nredis_version:${version}\r\n${more}`;
  for (const old of ['6.2.14', '5.0.0', '2.8.19'])
    expect(() => refuseOld(info(old), 'r:6379')).toThrow(
      `Redis at r:6379 is version ${old}: 7.0 or later is needed, or Valkey`,
    );
  for (const fine of ['7.0.0', '7.2.4', '8.0.1', '10.0.0']) expect(() => refuseOld(info(fine), 'r:6379')).not.toThrow();
  expect(() => refuseOld(info('7.2.4', 'server_name:valkey\r\nvalkey_version:8.1.8\r\n'), 'r:6379')).not.toThrow();
});

it('does not start on a Redis before 7.0, and says which version it found', async () => {
  const old = await startOldRedis(Number(new URL(sharedRedisUrl()).port));
  const worker = startWorker('alerts', { FUSELINE_REDIS_URL: `redis://127.0.0.1:${old}` });
  expect(await worker.exited).toEqual({ code: 1, signal: null });
  expect(JSON.parse(worker.lines.at(-1)!)).toMatchObject({
    level: 60,
    msg: `Redis at 127.0.0.1:${old} is version 6.2.1: 7.0 or later is needed, or Valkey`,
  });
});

it('warns about a maxmemory-policy that evicts, and when it cannot be known', async () => {
  const server = await startRedis({ args: ['--maxmemory-policy', 'allkeys-lru'] });
  const clients = openClients({ redisUrl: server.url, logRedisUrl: server.url, queueRedisUrl: server.url }, quiet);
  releaseAtEnd(() => clients.close());
  expect(clients.servers).toHaveLength(1);
  const { signal } = new AbortController();
  expect(await checkServer(clients.servers[0]!, signal)).toEqual([
    `the maxmemory-policy of Redis at 127.0.0.1:${server.port} is allkeys-lru: it must be noeviction, or Redis may evict blocks and jobs`,
  ]);

  await clients.main.call('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
  expect(await checkServer(clients.servers[0]!, signal)).toEqual([]);

  await clients.main.call('ACL', 'SETUSER', 'managed', 'on', '>pw', '~*', '&*', '+@all', '-config', '-info');
  // Without INFO the client's own check of readiness fails too, as it does on such services: it goes on.
  const managed = openRedis(`redis://managed:pw@127.0.0.1:${server.port}`, 'commands');
  releaseAtEnd(() => closeRedis(managed));
  const address = `127.0.0.1:${server.port}`;
  const warnings = await checkServer({ url: '', address, client: managed }, signal);
  expect(warnings).toHaveLength(2);
  expect(warnings[0]).toContain('the version of Redis');
  expect(warnings[1]).toContain('could not be checked');
});

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

/** The real server, with another version in what it tells of itself. */
async function startOldRedis(port: number): Promise<number> {
  const listener = createServer((client) => {
    const server = connect({ port, host: '127.0.0.1' });
    client.on('error', () => server.destroy()).on('close', () => server.destroy());
    server.on('error', () => client.destroy()).on('close', () => client.destroy());
    client.pipe(server);
    // The length of a reply stands before it, so it must not change.
    const older = (version: string) => `redis_version:${'6.2.1'.padEnd(version.length)}`;
    server.on('data', (chunk) =>
      client.write(
        chunk.toString('latin1').replace(/redis_version:(\S+)/, (_all, version) => older(version)),
        'latin1',
      ),
    );
  }).listen(0, '127.0.0.1');
  await until(() => listener.address(), { what: 'the old server to listen' });
  releaseAtEnd(async () => void listener.close());
  return (listener.address() as { port: number }).port;
}
