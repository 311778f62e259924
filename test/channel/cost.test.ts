import { beforeAll, describe, expect, it } from 'vitest';
import { override } from '../../src/channel/override.js';
import { record } from '../../src/channel/record.js';
import { tidyLog } from '../../src/channel/tidy.js';
import type { ChannelBatch } from '../../src/domain/batch.js';
import type { Window } from '../../src/domain/policy.js';
import { closeRedis, openRedis, type RedisClient, whenReady } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import { startRedis } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';
import { until } from '../support/wait.js';
import { batchOf, C10, channelOn, FRESH_MS, policyOf } from './support.js';

const WRITES =
  /^(set|del|hset|hdel|rpush|ltrim|pexpireat|persist|zadd|zrem|zremrangebyrank|lrem|unlink|expire|pexpire)$/;

describe('what a call of record.lua costs, from INFO commandstats', () => {
  let client: RedisClient;
  let n = 0;
  beforeAll(async () => {
    client = openRedis((await startRedis()).url, 'commands');
    releaseAtEnd(() => closeRedis(client));
    await whenReady(client);
    // So that every call below finds the script in the cache, as all but the first do.
    await channelOn({ client, keys: new Keys() }, 'first').record('S');
  });

  const fresh = () => ({ channel: channelOn({ client, keys: new Keys() }, `C${++n}`), name: `C${n}` });

  /** Commands that one call ran inside the server: everything but EVALSHA itself and our own INFO. */
  async function costOf(call: () => Promise<unknown>): Promise<{ commands: number; writes: number; list: string }> {
    await client.config('RESETSTAT');
    await call();
    const info = await client.info('commandstats');
    const calls = [...info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)]
      .map(([, name, count]) => [name!, Number(count)] as const)
      .filter(([name]) => !/^(evalsha|info|config\|resetstat)$/.test(name));
    const sum = (list: readonly (readonly [string, number])[]) => list.reduce((total, [, count]) => total + count, 0);
    return {
      commands: sum(calls),
      writes: sum(calls.filter(([name]) => WRITES.test(name))),
      list: calls.map(([name, count]) => `${name} ${count}`).join(', '),
    };
  }

  it.each([1, 100, 1_000])('a healthy channel: two reads and no write for a batch of %i', async (size) => {
    const { channel } = fresh();
    const cost = await costOf(() => channel.record('S'.repeat(size)));
    expect(cost, cost.list).toMatchObject({ commands: 2, writes: 0 });
    expect(cost.list).toMatch(/^(exists 1, hgetall 1|hgetall 1, exists 1)$/);
  });

  it('a healthy channel during the hold after a recovery, and after the hold: two reads and no write', async () => {
    const { channel, name } = fresh();
    const policy = policyOf({ holdMs: 1 });
    for (const [rules, settled] of [
      [C10, 'hold'],
      [policy, 'after'],
    ] as const) {
      await channel.record('FFF', rules);
      const hand = { action: 'unblock', forMs: 0, actor: '', note: '' } as const;
      await override(client, new Keys(), name, rules, FRESH_MS, hand);
      await client.del(channel.names[4]);
      const cost = await costOf(() => channel.record('S'.repeat(1_000), rules));
      expect(cost, `${settled}: ${cost.list}`).toMatchObject({ commands: 2, writes: 0 });
    }
  });

  it.each(['S'.repeat(1_000), 'FS'.repeat(500)])(
    'a time window: at most 12 commands, 15 with a failure, for a batch of 1,000',
    async (story) => {
      const { channel } = fresh();
      const policy = policyOf({ window: { kind: 'time', spanMs: 10_000, slots: 10, minCalls: 5 }, rate: 0 });
      await channel.record('FS', policy);
      const cost = await costOf(() => channel.record(story, policy));
      expect(cost.commands, cost.list).toBeLessThanOrEqual(story.includes('F') ? 15 : 12);
      expect(cost.list).not.toMatch(/rpush.*channel_health/);
    },
  );

  /** Every kind beside the plain one, with everything that can stand beside a rate. */
  const ALSO = {
    ...{ slow: { overMs: 1_000, rate: 9_999 }, minFailures: 2, maxConsecutiveFailures: 100_000, minSources: 2 },
    rateLimit: { minMs: 1_000, maxMs: 60_000 },
  };
  const LOG: Window = { kind: 'log', spanMs: 60_000, minCalls: 5, maxEntries: 1_000 };
  const TEST = { healthy: 9_500, failing: 5_000, falseBlocks: 1e-6, up: 18, down: 8, limit: 1_000_000 };
  const SEQUENTIAL: Window = { kind: 'sequential', ...TEST };

  it.each([
    ['S', 18],
    ['S'.repeat(1_000), 18],
    ['F', 20],
    ['FSL'.repeat(300), 20],
  ])(
    'a full call log: at most 18 commands, 20 with a failure, also where as many calls have to go as come (%#)',
    async (story, most) => {
      const { channel } = fresh();
      const policy = policyOf({ window: LOG, rate: 0, maxFailures: 100_000, ...ALSO });
      await channel.record('FS'.repeat(500), policy);
      const cost = await costOf(() => channel.record(story, policy, { partition: 'new/log/1/0', source: 'a' }));
      expect(await client.exists(channel.names[1])).toBe(0);
      expect(cost.commands, cost.list).toBeLessThanOrEqual(most);
      expect(await client.zcard(channel.names[7])).toBe(1_000);
    },
  );

  it.each([1, 1_000])(
    'a sequential test of a healthy channel: two reads and no write for a batch of %i',
    async (size) => {
      for (const policy of [policyOf({ window: SEQUENTIAL }), policyOf({ window: SEQUENTIAL, ...ALSO })]) {
        const { channel } = fresh();
        const cost = await costOf(() => channel.record('S'.repeat(size), policy));
        expect(cost, cost.list).toMatchObject({ commands: 2, writes: 0 });
      }
    },
  );

  it.each(['F', 'FSL'.repeat(300)])(
    'a sequential test with its score above 0: at most 15 commands (%#)',
    async (story) => {
      const { channel } = fresh();
      const policy = policyOf({ window: SEQUENTIAL, ...ALSO });
      await channel.record('FFFF', policy);
      const cost = await costOf(() => channel.record(story, policy, { source: 'a' }));
      expect(cost.commands, cost.list).toBeLessThanOrEqual(15);
    },
  );

  it('rules beside the rate cost a healthy channel of a count window nothing', async () => {
    const { channel } = fresh();
    const cost = await costOf(() => channel.record('S'.repeat(1_000), policyOf(ALSO)));
    expect(cost, cost.list).toMatchObject({ commands: 2, writes: 0 });
  });

  it.each([
    ['a pause', 'SW', policyOf(ALSO), 18],
    ['a word on the only source that fails', 'FFFF', policyOf(ALSO), 18],
  ] as const)('%s: at most so many commands', async (_what, story, policy, most) => {
    const { channel } = fresh();
    const cost = await costOf(() => channel.record(story, policy, { source: 'a', retryAfterMs: 5_000 }));
    expect(cost.commands, cost.list).toBeLessThanOrEqual(most);
  });

  it('a tidying of a call log: one read where there is nothing to remove', async () => {
    const { channel, name } = fresh();
    await channel.record('S'.repeat(100), policyOf({ window: LOG }));
    const many = { spanMs: 60_000, freshForMs: FRESH_MS, most: 1_000 };
    await tidyLog(client, new Keys(), name, many);
    const cost = await costOf(() => tidyLog(client, new Keys(), name, many));
    expect(cost, cost.list).toMatchObject({ commands: 2, writes: 0 });
    expect(cost.list).toMatch(/time 1/);
  });

  it.each(['S', 'F', 'FS'.repeat(500)])('a blocked channel: at most four reads and no write (%s)', async (story) => {
    const { channel } = fresh();
    await channel.record('FFF');
    await client.del(channel.names[4]);
    const cost = await costOf(() => channel.record(story));
    expect(cost.commands, cost.list).toBeLessThanOrEqual(4);
    expect(cost.writes, cost.list).toBe(0);
  });

  it('a channel blocked in the shadow of mode observe: at most four reads and no write', async () => {
    const { channel } = fresh();
    const policy = policyOf({ mode: 'observe' });
    await channel.record('FFF', policy);
    await client.del(channel.names[4]);
    const cost = await costOf(() => channel.record('FS', policy));
    expect(cost.commands, cost.list).toBeLessThanOrEqual(4);
    expect(cost.writes, cost.list).toBe(0);
  });

  /** The worst that a channel can look like: window at N, evidence full, state there, many partitions, all of them old. */
  async function worst(size: number): Promise<ReturnType<typeof fresh>> {
    const made = fresh();
    const never = policyOf({ size, rate: 0 });
    await override(client, new Keys(), made.name, never, FRESH_MS, { action: 'block', forMs: 0, actor: '', note: '' });
    await override(client, new Keys(), made.name, never, FRESH_MS, {
      action: 'unblock',
      forMs: 0,
      actor: '',
      note: '',
    });
    await client.del(made.channel.names[4]);
    const [at] = await client.time();
    await until(async () => (await client.time())[0] !== at, { what: 'calls that begin after the unblock' });
    await made.channel.record('F'.repeat(size + 30), never);
    const old: string[] = [];
    for (let i = 0; i < 40; i += 1) old.push(`gone/log/${i}/0`, '7|1000');
    await client.hset(made.channel.names[3], ...old);
    return made;
  }

  it.each(['S', 'S'.repeat(1_000)])('a recorded batch without a failure: at most 12 commands (%#)', async (story) => {
    const { channel } = await worst(200);
    const cost = await costOf(() =>
      channel.record(story, policyOf({ size: 200, rate: 0 }), { partition: 'new/log/1/0' }),
    );
    expect(cost.commands, cost.list).toBeLessThanOrEqual(12);
  });

  it.each(['F', 'F'.repeat(1_000), 'FS'.repeat(500), `${'S'.repeat(400)}F`])(
    'a recorded batch with a failure: at most 15 commands (%#)',
    async (story) => {
      const { channel } = await worst(200);
      const policy = policyOf({ size: 200, rate: 0 });
      const cost = await costOf(() => channel.record(story, policy, { partition: 'new/log/1/0' }));
      expect(cost.commands, cost.list).toBeLessThanOrEqual(15);
      const restarted = fresh();
      const first = await costOf(() => restarted.channel.record(story, policy));
      expect(first.commands, first.list).toBeLessThanOrEqual(15);
    },
  );

  it.each([1, 10, 1_000])('a batch that blocks: at most 18 commands, with a window of %i', async (size) => {
    const { channel } = size === 1 ? fresh() : await worst(size);
    const policy = policyOf({ size, rate: 100 });
    const cost = await costOf(() => channel.record('FS'.repeat(500), policy, { partition: 'new/log/1/0' }));
    expect(await client.exists(channel.names[1])).toBe(1);
    expect(cost.commands, cost.list).toBeLessThanOrEqual(18);
  });

  it('a batch read again: reads alone, whatever its size', async () => {
    const { channel } = fresh();
    const batch: ChannelBatch = batchOf('FS'.repeat(100));
    const policy = policyOf({ rate: 0 });
    await channel.send(batch, policy);
    const cost = await costOf(() => record(client, new Keys(), `C${n}`, policy, FRESH_MS, batch));
    expect(cost.writes, cost.list).toBe(0);
  });

  it('old partitions leave the fence with the next batch that has no failure, and with the first failure of a window', async () => {
    for (const [story, reopen] of [
      ['S', false],
      ['F', true],
    ] as const) {
      const { channel } = await worst(200);
      if (reopen) await client.del(channel.names[0]);
      expect(await client.hlen(channel.names[3])).toBeGreaterThan(40);
      await channel.record(story, policyOf({ size: 200, rate: 0 }), { partition: 'new/log/1/0' });
      expect(Object.keys(await client.hgetall(channel.names[3])).sort()).toEqual(
        ['@at', '@by', 'new/log/1/0', 'test/log/0/0'].sort(),
      );
    }
  });
});
