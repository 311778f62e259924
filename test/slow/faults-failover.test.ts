import { expect, it } from 'vitest';
import { closeRedis, openRedis, type RedisClient, whenReady } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import { fuseline } from '../cli/run.js';
import { alertsOf } from '../process/pipeline.js';
import { openFleet, randomFrom, SHORT, seedOf, startLoad } from '../support/fleet.js';
import { startRedis } from '../support/redis.js';
import { startSentinel } from '../support/redis-sentinel.js';
import { releaseAtEnd } from '../support/releasers.js';
import { startTcpProxy } from '../support/tcp-proxy.js';
import { verifyAtEnd } from '../support/verifier.js';
import { sleep, until } from '../support/wait.js';

async function admin(url: string): Promise<RedisClient> {
  const client = openRedis(url, 'queue-worker');
  releaseAtEnd(() => closeRedis(client));
  await whenReady(client);
  return client;
}

it.concurrent('a Sentinel failover under load counts nothing twice, and agenda, state, block key and feed agree again', async () => {
  const seed = seedOf('sentinel');
  const sentinel = await startSentinel();
  const fleet = await openFleet({ redis: sentinel.url });
  await fleet.start('outcomes', 'recovery', 'alerts');
  await fleet.start('outcomes', 'recovery');
  const running = startLoad(fleet.publisher, randomFrom(seed));
  await sleep(3_000);
  await sentinel.killPrimary();
  await sleep(5_000);
  expect(await running.stop()).toBe(true);
  const { prefix, receiver } = fleet;
  const end = { url: sentinel.url, prefix, policy: SHORT, receiver, merged: true, lossy: true };
  const verdict = await verifyAtEnd(end, 15_000);
  console.info('sentinel:', JSON.stringify(verdict));
  expect(verdict.problems).toEqual([]);
  expect(verdict.blocks).toBeGreaterThan(2);
}, 120_000);

it.concurrent('a block that was told and then lost with the last writes before a failover is told to end, and all agrees again', async () => {
  const seed = seedOf('lost writes');
  const [primary, queue] = await Promise.all([startRedis(), startRedis()]);
  const replication = await startTcpProxy({ port: primary.port });
  const args = ['--replicaof', '127.0.0.1', String(replication.port), '--repl-diskless-sync-delay', '0'];
  const replica = await startRedis({ args: [...args, '--repl-timeout', '60'] });
  const replicaAdmin = await admin(replica.url);
  await until(() => replicaAdmin.info('replication'), {
    what: 'the replica to be in step',
    accept: (info) => info.includes('master_link_status:up'),
  });
  const address = await startTcpProxy({ port: primary.port });
  const rules = { defaults: { window: 10, successRate: 70, block: '6s', hold: '1s' } };
  const fleet = await openFleet({ redis: address.url, queue: queue.url, rules });
  const { publisher, receiver, prefix } = fleet;
  await fleet.start('outcomes', 'recovery', 'alerts');
  const fail = async (channel: string) => {
    for (let i = 0; i < 4; i += 1) publisher.publish({ channel, success: false });
    expect(await publisher.flush()).toBe(true);
  };
  const types = (channel: string) => alertsOf(receiver, channel).map(({ type }) => type.replace('channel.', ''));

  // One channel with a past, so that the replica has a state of it, and one without.
  await fail('past');
  await until(() => types('past').length === 1, { what: 'its first block' });
  expect(await fuseline(['unblock', 'past'], fleet.env)).toMatchObject({ code: 0 });
  await until(() => types('past'), {
    what: 'its first incident',
    accept: (all) => all.length === 3,
    timeoutMs: 15_000,
  });
  const running = startLoad(publisher, randomFrom(seed));
  await sleep(1_000);
  replication.pause();
  await Promise.all([fail('past'), fail('new')]);
  await until(() => types('past').length === 4 && types('new').length === 1, { what: 'the alerts of both blocks' });
  await replicaAdmin.replicaof('NO', 'ONE');
  address.retarget(replica.port);
  await sleep(3_000);
  expect(await running.stop()).toBe(true);
  for (const channel of ['past', 'new']) {
    await until(() => types(channel), {
      what: `${channel} to be told to end`,
      accept: (all) => all.at(-1) === 'held' && all.at(-2) === 'recovered',
      timeoutMs: 15_000,
    });
  }
  expect(types('new')).toEqual(['blocked', 'recovered', 'held']);
  const policy = { ...SHORT, block: { ...SHORT.block, forMs: 6_000 } };
  const end = { url: replica.url, queueUrl: queue.url, prefix, policy, receiver, merged: true, lossy: true };
  const verdict = await verifyAtEnd({ ...end, byHand: ['past', 'new'] }, 15_000);
  console.info('lost writes:', JSON.stringify(verdict));
  expect(verdict.problems).toEqual([]);
  expect(await replicaAdmin.exists(new Keys(prefix).blocked('past'))).toBe(0);
}, 120_000);
