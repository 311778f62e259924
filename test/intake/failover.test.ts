import { randomUUID } from 'node:crypto';
import { it } from 'vitest';
import { createIntake } from '../../src/intake/intake.js';
import { Stats } from '../../src/intake/stats.js';
import { silent } from '../../src/observe/log.js';
import { createMetrics } from '../../src/observe/metrics.js';
import { closeRedis, openRedis, type RedisClient, whenReady } from '../../src/redis/client.js';
import type { Keys } from '../../src/redis/keys.js';
import { createRedisStreamReader } from '../../src/transport/redis-stream/reader.js';
import { rulesFor, stand } from '../announce/support.js';
import { FRESH_MS, policyOf } from '../channel/support.js';
import { sharedRedisUrl, startRedis } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';
import { startTcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/wait.js';

const POLICY = policyOf({ size: 10, rate: 10 });

async function open(url: string): Promise<RedisClient> {
  const client = openRedis(url, 'commands');
  releaseAtEnd(() => closeRedis(client));
  await whenReady(client);
  return client;
}

/** A primary, its replica, and the line between them, which can be held up so that the last writes do not arrive. */
async function startPair() {
  const primary = await startRedis();
  const line = await startTcpProxy({ port: primary.port });
  const args = [
    '--replicaof',
    '127.0.0.1',
    String(line.port),
    '--repl-diskless-sync-delay',
    '0',
    '--repl-timeout',
    '60',
  ];
  const replica = await startRedis({ args });
  const [onPrimary, onReplica] = await Promise.all([open(primary.url), open(replica.url)]);
  await until(() => onReplica.info('replication'), {
    what: 'the replica to be in step',
    accept: (info) => info.includes('master_link_status:up'),
  });
  return { primary, replica, line, onPrimary, onReplica };
}

/** A worker that reads a log of one shard over `reads` and records over `calls`; the log is where `logCalls` leads. */
async function startReading(keys: Keys, urls: { reads: string; logCalls: string; calls: string }) {
  const client = openRedis(urls.calls, 'commands');
  const logClient = urls.logCalls === urls.calls ? client : openRedis(urls.logCalls, 'commands');
  await Promise.all([whenReady(client), whenReady(logClient)]);
  const reader = createRedisStreamReader({
    ...{ client: logClient, keys, shards: 1, worker: randomUUID() },
    openClient: () => openRedis(urls.reads, 'blocking'),
    watch: logClient === client ? [] : [client],
  });
  const { announcer } = await stand({ policy: POLICY });
  const intake = createIntake({
    ...{ client, keys, reader, announcer, stats: new Stats(), freshForMs: FRESH_MS, logClockLeadMs: 0 },
    ...{ rules: rulesFor(() => POLICY), maxChannels: 100, log: silent, count: createMetrics().count },
  });
  const handed: string[] = [];
  const stop = new AbortController();
  const ended = reader.run((batch, signal) => {
    handed.push(...batch.entries.map(({ position }) => position));
    return intake.handle(batch, signal);
  }, stop.signal);
  releaseAtEnd(async () => {
    stop.abort();
    await ended;
    await Promise.all([closeRedis(client), closeRedis(logClient)]);
  });
  await until(() => reader.progress().owned.length === 1, { what: 'the worker to read' });
  return { client, reader, handed };
}

const entry = (results: string) => [
  'outcomes',
  JSON.stringify([...results].map((one) => ({ channel: 'C', success: one === '1' }))),
];
const append = (client: RedisClient, keys: Keys, results: string) =>
  client.xadd(keys.outcomes(0), '*', ...entry(results));
const windowOf = async (client: RedisClient, keys: Keys) => (await client.lrange(keys.channel('C')[0], 0, -1)).join('');

it.concurrent('a call whose answer a failover lost is not made on the new server, whose fence would cover what that server never saw', async () => {
  const { replica, line, onPrimary, onReplica, primary } = await startPair();
  const reads = await startTcpProxy({ port: primary.port });
  const calls = await startTcpProxy({ port: primary.port });
  const { keys } = await stand();
  const worker = await startReading(keys, { reads: reads.url, calls: calls.url, logCalls: calls.url });

  // With one entry committed everywhere the worker knows which server it was.
  await append(onPrimary, keys, '1');
  await until(() => worker.reader.progress().counters.commits === 1, { what: 'an entry that is committed' });
  await until(() => onReplica.xlen(keys.outcomes(0)), { what: 'the replica to have it' });
  // The replica gets the next entry, and not that it was recorded.
  calls.pause();
  const first = await append(onPrimary, keys, '00');
  await until(() => worker.handed.includes(first!), { what: 'it to be on its way' });
  await until(() => onReplica.xlen(keys.outcomes(0)), {
    what: 'the replica to have it',
    accept: (length) => length === 2,
  });
  line.pause();
  calls.resume();
  await until(() => windowOf(onPrimary, keys), { what: 'it to be recorded', accept: (all) => all === '00' });
  await until(() => worker.reader.progress().counters.commits === 2, { what: 'it to be committed' });
  // The last is in the log of the old server alone, and its call has no answer when that goes.
  calls.pause();
  const lost = await append(onPrimary, keys, '0');
  await until(() => worker.handed.includes(lost!), { what: 'the last entry to be on its way' });
  await onReplica.replicaof('NO', 'ONE');
  reads.retarget(replica.port);
  calls.retarget(replica.port);
  calls.resume();

  await until(() => windowOf(onReplica, keys), { what: 'what the new log holds', accept: (all) => all === '00' });
  await append(onReplica, keys, '1');
  await until(() => windowOf(onReplica, keys), { what: 'the next entry', accept: (all) => all === '001' });
});

it.concurrent('what arrives right after a failover of the channels is not recorded before what that server never saw', async () => {
  const { replica, line, onReplica, primary } = await startPair();
  const log = await open(sharedRedisUrl());
  const calls = await startTcpProxy({ port: primary.port });
  const { keys } = await stand();
  const shared = sharedRedisUrl();
  const worker = await startReading(keys, { reads: shared, calls: calls.url, logCalls: shared });

  await append(log, keys, '0');
  await until(() => windowOf(onReplica, keys), { what: 'an entry that the replica has', accept: (all) => all === '0' });
  line.pause();
  await append(log, keys, '00');
  await until(() => worker.reader.progress().counters.commits === 2, { what: 'an entry that the replica misses' });
  await onReplica.replicaof('NO', 'ONE');
  const again = new Promise((resolve) => worker.client.once('ready', resolve));
  calls.retarget(replica.port);
  await again;
  await append(log, keys, '1');
  await until(() => windowOf(onReplica, keys), { what: 'all that the log holds', accept: (all) => all === '0001' });
});
