import { describe, expect, it } from 'vitest';
import { settle } from '../../src/channel/recover.js';
import { sweep } from '../../src/recovery/sweep.js';
import { stand } from '../announce/support.js';
import { policyOf } from '../channel/support.js';
import { startRedis } from '../support/redis.js';
import { startCluster } from '../support/redis-cluster.js';
import { until } from '../support/wait.js';

describe('a sweep of many', () => {
  it('8.01 looks at 2,000 channels whose blocks end together, and tells each end once', async () => {
    const server = await startRedis();
    const one = await stand({ policy: policyOf({ forMs: 1_500 }), url: server.url });
    const names = Array.from({ length: 2_000 }, (_, i) => `channel-${i}`);
    const blocks = await Promise.all(names.map((name) => one.record(name, 'FFF')));
    // As announced before: only the ends are left to tell.
    await Promise.all(names.map((name, i) => settle(one.client, one.keys, name, [blocks[i]!.outbox[0]!.epoch])));
    await one.announcer.mark(names);
    const lastEnd = Math.max(...blocks.map(({ outbox }) => outbox[0]!.until));
    await until(async () => (await one.now()) > lastEnd, { what: 'every block to end' });
    expect(await sweep(one.watching)).toEqual({ looked: 2_000, moved: 2_000, failed: 0 });
    const jobs = await one.jobs('notify');
    expect(jobs.length).toBe(2_000);
    expect(new Set(jobs.map(({ data }) => `${data.kind} ${data.channel}`)).size).toBe(2_000);
    expect(await sweep(one.watching)).toMatchObject({ moved: 0, failed: 0 });
    expect((await one.jobs('notify')).length).toBe(2_000);
  }, 60_000);

  it('8.02 finds the ends on every node of a cluster', async () => {
    const cluster = await startCluster();
    const one = await stand({ policy: policyOf({ forMs: 200 }), url: cluster.url });
    const names = Array.from({ length: 30 }, (_, i) => `channel-${i}`);
    await one.announcer.mark(names);
    const blocks = await Promise.all(names.map((name) => one.record(name, 'FFF')));
    const lastEnd = Math.max(...blocks.map(({ outbox }) => outbox[0]!.until));
    await until(async () => (await one.now()) > lastEnd + 50, { what: 'every block to end' });
    expect(await sweep(one.watching)).toEqual({ looked: 30, moved: 30, failed: 0 });
    const kinds = (await one.jobs('notify')).map(({ data }) => data.kind);
    expect(kinds.filter((kind) => kind === 'blocked').length).toBe(30);
    expect(kinds.filter((kind) => kind === 'recovered').length).toBe(30);
  }, 60_000);
});
