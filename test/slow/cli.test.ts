import { expect, it } from 'vitest';
import { freePort } from '../../deploy/local/redis-server.mjs';
import { createReader } from '../../src/reader/reader.js';
import { setRules } from '../../src/rules/store.js';
import { place } from '../cli/place.js';
import { fuseline } from '../cli/run.js';
import { startRoles, untilReady } from '../process/workers.js';
import { startProcess } from '../support/processes.js';
import { sharedRedisUrl } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';
import { startTcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/wait.js';

const rulesOn = { mode: 'on', defaults: { window: 5, successRate: 70, block: '30m', hold: '30m' } };

it.concurrent('every command says within 5 s that Redis cannot be reached, which one and why, without its password', async () => {
  const port = await freePort();
  const env = { FUSELINE_REDIS_URL: `redis://user:secret@127.0.0.1:${port}/3` };
  const commands = [
    ['status'],
    ['block', 'A'],
    ['unblock', 'A'],
    ['rules', 'get'],
    ['publish', '--channel', 'A', '--success'],
  ];
  const results = await Promise.all(commands.map((args) => fuseline(args, env)));
  const err = `fuseline: Redis at 127.0.0.1:${port} cannot be reached within 5 s: connect ECONNREFUSED 127.0.0.1:${port}\n`;
  expect(results).toEqual(commands.map(() => ({ code: 1, out: '', err })));
}, 60_000);

it.concurrent('blocks although the queues are away, says who is not told yet, and leaves it to the sweep', async () => {
  const { prefix, keys, client, env } = place();
  const reader = createReader({ url: sharedRedisUrl(), prefix, channels: ['A'] });
  releaseAtEnd(() => reader.close());
  const { code, out, err } = await fuseline(['block', 'A'], {
    ...env,
    FUSELINE_QUEUE_REDIS_URL: 'redis://127.0.0.1:1',
  });
  expect(code).toBe(0);
  expect(out).toMatch(/^A is blocked until/);
  expect(err).toMatch(/warning: not everybody could be told yet \(.*\); a recovery worker will do it/);
  await until(() => reader.isBlocked('A'), { what: 'the reader to keep it out' });
  expect(await client.llen(keys.channel('A')[4])).toBe(1);
  const watcher = startRoles(['recovery'], env);
  await untilReady(watcher);
  await until(() => client.llen(keys.channel('A')[4]), { what: 'the outbox to drain', accept: (left) => left === 0 });
}, 60_000);

it('a block by hand is told to everybody although the command was killed before it could', async () => {
  const { keys, client, env } = place();
  const frozen = await startTcpProxy({ port: Number(new URL(sharedRedisUrl()).port) });
  frozen.pause();
  const command = startProcess('dist/src/cli/main.js', ['block', 'A', '--for', '1h'], {
    ...env,
    FUSELINE_QUEUE_REDIS_URL: frozen.url,
  });
  await until(() => client.exists(keys.blocked('A')), { what: 'the block' });
  command.kill('SIGKILL');
  await command.exited;
  expect(await client.llen(keys.channel('A')[4])).toBe(1);
  const watcher = startRoles(['recovery'], env);
  await untilReady(watcher);
  await until(() => client.llen(keys.channel('A')[4]), { what: 'the outbox to drain', accept: (left) => left === 0 });
  expect(await client.xlen(keys.feed)).toBe(1);
  expect(await client.llen(`${keys.queues}:notify:wait`)).toBe(1);
}, 60_000);

it('status tells what is blocked, until when and why, what is busy, and how the workers are', async () => {
  const { keys, client, env } = place();
  await setRules({ client, keys }, { expectedVersion: 0, document: rulesOn, actor: 't' });
  const empty = await fuseline(['status'], env);
  expect(empty.out).toContain('outcome workers 0 (nobody judges)');
  expect(empty.out).toContain('no channel is busy, none is blocked');

  const worker = startRoles(['outcomes', 'recovery'], env);
  await untilReady(worker);
  const outcomes = [
    ...Array.from({ length: 5 }, () => '{"channel":"微信支付","success":false}'),
    ...Array.from({ length: 40 }, () => '{"channel":"busy","success":true}'),
    '{"channel":"half","success":false}',
  ];
  expect((await fuseline(['publish'], env, outcomes.join('\n'))).code).toBe(0);
  await fuseline(['block', 'ALIPAY', '--for', '2h', '--reason', '\u6d4b\u8bd5', '--actor', 'li'], env);
  const status = await until(async () => JSON.parse((await fuseline(['status', '--json'], env)).out), {
    what: 'the counts of the last minute',
    accept: ({ channels }) =>
      channels.some((one: { lastMinute: { successes: number } }) => one.lastMinute.successes === 40),
    timeoutMs: 20_000,
  });
  expect(status).toMatchObject({ v: 1, rules: { version: 1 }, workers: { outcomes: 1 }, log: { shards: 4, lag: 0 } });
  const of = (name: string) => status.channels.find(({ channel }: { channel: string }) => channel === name);
  expect(of('微信支付')).toMatchObject({
    state: 'open',
    blocked: true,
    reason: 'success-rate',
    byHand: false,
    relapse: 0,
    lastMinute: { successes: 0, failures: 5 },
  });
  expect(of('微信支付').leftMs).toBeGreaterThan(1_700_000);
  expect(of('微信支付').incident).toMatch(/^\d{13}$/);
  expect(of('ALIPAY')).toMatchObject({ blocked: true, byHand: true, actor: 'li', note: '测试', reason: 'manual' });
  expect(of('busy')).toMatchObject({ blocked: false, state: 'closed', window: { size: 5, recorded: 0, succeeded: 0 } });
  expect(of('half')).toMatchObject({ window: { size: 5, recorded: 1, succeeded: 0 } });

  const { out, err } = await fuseline(['status'], env);
  expect(err).toBe('');
  expect(out).not.toContain('\u001b');
  expect(out).toMatch(/^rules version 1$/m);
  expect(out).toMatch(/^outcome workers 1, shards 4, waiting entries 0$/m);
  expect(out).toMatch(/^2 blocked$/m);
  expect(out).toMatch(/^微信支付 {2}BLOCKED {2}29m \d+s +\S+ +too few successes .*5 failed/m);
  expect(out).toMatch(/^ALIPAY {4}BLOCKED {2}1h 59m .*by hand until .* by li, "测试"$/m);
}, 90_000);
