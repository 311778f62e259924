import { expect, it } from 'vitest';
import { readAgenda } from '../../src/channel/snapshot.js';
import { openQueues } from '../../src/queue/queues.js';
import { createReader } from '../../src/reader/reader.js';
import { setRules } from '../../src/rules/store.js';
import { sharedRedisUrl, startRedis } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';
import { until } from '../support/wait.js';
import { place } from './place.js';
import { fuselineHere } from './run.js';

const rulesOn = { mode: 'on', defaults: { window: 5, successRate: 70, block: '30m', hold: '30m' } };

it('blocks by hand at once and everywhere, announces it, and unblocks the same way', async () => {
  const { prefix, keys, client, env } = place();
  const reader = createReader({ url: sharedRedisUrl(), prefix, channels: ['ALIPAY'] });
  releaseAtEnd(() => reader.close());
  expect(await reader.ready).toBe(true);

  const blocked = await fuselineHere(
    ['block', 'ALIPAY', '--for', '2h', '--reason', '上线维护', '--actor', 'li@desk'],
    env,
  );
  expect(blocked).toMatchObject({ code: 0, err: '' });
  expect(blocked.out).toMatch(/^ALIPAY is blocked until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(2h\)\n$/);
  await until(() => reader.isBlocked('ALIPAY'), { what: 'the reader to keep it out' });
  expect(reader.stateOf('ALIPAY')).toMatchObject({ reason: 'manual', actor: 'li@desk', note: '上线维护' });
  expect(await client.pttl(keys.blocked('ALIPAY'))).toBeGreaterThan(7_190_000);
  expect(await client.llen(keys.channel('ALIPAY')[4])).toBe(0);
  expect(await readAgenda(client, keys)).toEqual(['ALIPAY']);
  const queues = openQueues({ client, prefix: keys.queues });
  releaseAtEnd(() => queues.close());
  expect(await queues.queue('notify').counts()).toMatchObject({ waiting: 1 });
  expect(await queues.queue('recovery').counts()).toMatchObject({ delayed: 1 });

  expect(await fuselineHere(['unblock', 'ALIPAY'], env)).toEqual({ code: 0, out: 'ALIPAY is unblocked\n', err: '' });
  await until(() => !reader.isBlocked('ALIPAY'), { what: 'the reader to show it' });
  expect(await fuselineHere(['unblock', 'ALIPAY'], env)).toMatchObject({ code: 0, out: 'ALIPAY was not blocked\n' });
  expect(await fuselineHere(['unblock', 'ALIPAY', '--for', '10m'], env)).toMatchObject({
    code: 0,
    out: 'ALIPAY was not blocked, and is not judged for 10m\n',
  });
});

it('blocks as long as the policy says without --for, and without end when told so', async () => {
  const { keys, client, env } = place();
  await setRules(
    { client, keys },
    { expectedVersion: 0, document: { ...rulesOn, channels: { B: { block: '7m' } } }, actor: 't' },
  );
  expect((await fuselineHere(['block', 'B'], env)).out).toMatch(/\(7m\)\n$/);
  expect((await fuselineHere(['block', 'B', '--for', 'forever'], env)).out).toBe('B is blocked without end\n');
  expect(await client.pttl(keys.blocked('B'))).toBe(-1);
});

it('names user and host when nobody says who it is', async () => {
  const { keys, client, env } = place();
  await fuselineHere(['block', 'B'], env);
  expect(await client.hget(keys.state('B'), 'actor')).toMatch(/^\S+@\S+$/);
});

it('is loud when Redis refuses: nothing is said to be blocked that is not', async () => {
  const server = await startRedis();
  const { keys, client, env } = place(server.url);
  await client.set(keys.state('A'), 'of another type');
  const refused = await fuselineHere(['block', 'A'], env);
  expect(refused).toMatchObject({ code: 1, out: '' });
  expect(refused.err).toMatch(/^fuseline: Redis did not confirm to block "A" .*WRONGTYPE/);
  await client.call('CONFIG', 'SET', 'min-replicas-to-write', '1');
  const readOnly = await fuselineHere(['block', 'B'], env);
  expect(readOnly).toMatchObject({ code: 1, out: '' });
  expect(readOnly.err).toMatch(/^fuseline: Redis did not confirm .*NOREPLICAS/);
  expect(await client.exists(keys.blocked('B'))).toBe(0);
});
