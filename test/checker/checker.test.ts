import { Redis } from 'ioredis';
import { afterEach, describe, expect, it } from 'vitest';
import { createAnnouncer } from '../../src/announce.js';
import { type Checker, createChecker } from '../../src/checker/checker.js';
import type { Policy } from '../../src/domain/policy.js';
import { silent } from '../../src/observe/log.js';
import { uncounted } from '../../src/observe/metrics.js';
import { openQueues } from '../../src/queue/queues.js';
import { sweep } from '../../src/recovery/sweep.js';
import { openRedis } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import type { LiveRules } from '../../src/rules/port.js';
import { startProcess } from '../support/processes.js';
import { sharedRedisUrl, startRedis, uniquePrefix } from '../support/redis.js';
import { startTcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/wait.js';

const POLICY: Policy = {
  mode: 'on',
  window: { kind: 'count', size: 10 },
  successRate: 7_000,
  block: { forMs: 60_000, growth: 1, maxMs: 60_000 },
  holdMs: 60_000,
  ignore: ['USER_*'],
};

function rulesOf(policy: Policy): LiveRules {
  return {
    version: () => 1,
    policyFor: () => policy,
    minVisible: () => 0,
    namedChannels: () => [],
    patternGroups: () => new Set(),
    receivers: () => [],
    routes: () => [],
    onChange: () => () => {},
    close: async () => {},
  };
}

const open: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

async function checkerOn(url: string, prefix: string, policy = POLICY, deadlineMs = 1_000): Promise<Checker> {
  const checker = await createChecker({ url, prefix, rules: rulesOf(policy), deadlineMs });
  open.push(() => checker.close(200));
  // It opens its connections at once, and refuses nothing meanwhile: it repeats.
  await checker.ready;
  return checker;
}

describe('direct mode', () => {
  it('judges each outcome at once and tells one caller that it blocked the channel', async () => {
    const [prefix, channel] = [uniquePrefix(), 'ALIPAY'];
    const [a, b] = await Promise.all([checkerOn(sharedRedisUrl(), prefix), checkerOn(sharedRedisUrl(), prefix)]);
    const results = [];
    for (const checker of [a, b, a, b, a])
      results.push(await checker.record({ channel, success: false, code: 'DOWN' }));
    expect(results).toEqual([
      { recorded: 1, succeeded: 0, justBlocked: false, blocked: false },
      { recorded: 2, succeeded: 0, justBlocked: false, blocked: false },
      { recorded: 3, succeeded: 0, justBlocked: false, blocked: false },
      { recorded: 4, succeeded: 0, justBlocked: true, blocked: true },
      { recorded: 0, succeeded: 0, justBlocked: false, blocked: true },
    ]);
    await until(() => a.isBlocked(channel) && b.isBlocked(channel), { what: 'both checkers to know from memory' });
    expect(await a.isBlockedNow(channel)).toBe(true);
  });

  it('joins outcomes of one channel that come while a call is under way, and loses none', async () => {
    const checker = await checkerOn(sharedRedisUrl(), uniquePrefix(), {
      ...POLICY,
      successRate: 0,
      window: { kind: 'count', size: 1_000 },
    });
    const results = await Promise.all(
      Array.from({ length: 500 }, (_, i) => checker.record({ channel: 'C', success: i % 2 === 1 })),
    );
    expect(Math.max(...results.map(({ recorded }) => recorded))).toBe(500);
    expect((await checker.record({ channel: 'C', success: true })).succeeded).toBe(251);
  });

  it('never rejects: what is refused says the rule, and what policy ignores changes nothing', async () => {
    const checker = await checkerOn(sharedRedisUrl(), uniquePrefix());
    expect(await checker.record({ channel: 'a}b', success: false })).toMatchObject({
      blocked: false,
      error: expect.stringContaining('"}"'),
    });
    expect(await checker.record(null as never)).toMatchObject({ blocked: false, error: expect.any(String) });
    expect(await checker.record({ channel: 'C', success: false, code: 'USER_LEFT' })).toEqual({
      recorded: 0,
      succeeded: 0,
      justBlocked: false,
      blocked: false,
    });
    expect((await checker.record({ channel: 'C', success: false })).recorded).toBe(1);
  });

  it('7.01 counts an outcome once whose answer was lost, and answers within its deadline meanwhile', async () => {
    const server = await startRedis();
    const proxy = await startTcpProxy({ port: server.port });
    const checker = await checkerOn(proxy.url, uniquePrefix(), POLICY, 300);
    expect((await checker.record({ channel: 'C', success: false })).recorded).toBe(1);
    proxy.swallowReplyTo(/evalsha/i);
    const asked = performance.now();
    const lost = await checker.record({ channel: 'C', success: false });
    expect(performance.now() - asked).toBeLessThan(2_000);
    expect(lost.justBlocked).toBe(false);
    await until(async () => (await checker.record({ channel: 'C', success: true })).recorded > 0, {
      what: 'Redis to answer again',
    });
    const direct = new Redis(server.url);
    open.push(() => direct.quit());
    const [health] = (await direct.keys('*channel_health*')) as [string];
    const slots = await direct.lrange(health, 0, -1);
    expect(slots.filter((slot) => slot === '0')).toHaveLength(2);
  });

  it('a process that dies right after the script leaves its transition to the next sweep, which tells it once', async () => {
    const [url, prefix, channel] = [sharedRedisUrl(), uniquePrefix(), 'C'];
    const child = startProcess('test/checker/dies-after-script.mjs', [url, prefix, channel]);
    await child.exited;
    const client = openRedis(url, 'commands');
    const producer = openRedis(url, 'queue-producer');
    open.push(
      () => client.quit(),
      () => producer.quit(),
    );
    const keys = new Keys(prefix);
    await until(() => client.status === 'ready' && producer.status === 'ready', { what: 'two connections' });
    expect(await client.llen(keys.channel(channel)[4])).toBe(1);
    expect(await client.xlen(keys.feed)).toBe(0);
    const queues = openQueues({ client: producer, prefix: keys.queues });
    open.push(() => queues.close());
    const announcer = createAnnouncer({ client, keys, queues, log: silent, count: uncounted });
    const watching = {
      client,
      keys,
      rules: rulesOf(POLICY),
      announcer,
      freshForMs: 300_000,
      log: silent,
      count: uncounted,
    };
    await Promise.all([sweep(watching), sweep(watching)]);
    await sweep(watching);
    expect(await client.llen(keys.channel(channel)[4])).toBe(0);
    expect((await queues.queue('notify').counts()).waiting).toBe(1);
    expect((await queues.queue('recovery').counts()).delayed).toBe(1);
  });
});
