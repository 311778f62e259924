import { describe, expect, it } from 'vitest';
import { closeRedis, openRedis, whenReady } from '../../src/redis/client.js';
import { stand } from '../announce/support.js';
import { policyOf } from '../channel/support.js';
import { sharedRedisUrl, startRedis } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';
import { until } from '../support/wait.js';
import { watch } from './watch.js';

describe('the recovery watcher', () => {
  it('8.08 three at once tell each recovery once, soon after the end, and each incident’s end after its hold', async () => {
    const policy = policyOf({ forMs: 700, holdMs: 800 });
    const stands = await Promise.all([1, 2, 3].map(() => stand({ policy })));
    const [one] = stands;
    const url = sharedRedisUrl();
    for (const each of stands)
      await watch({ ...each, keys: one!.keys, watching: { ...one!.watching, client: each.client } }, url);
    for (let i = 0; i < 10; i += 1) {
      const { result, outbox } = await one!.record(`C${i}`, 'FFF');
      const [score] = await one!.announcer.mark([`C${i}`]);
      await one!.announcer.announce(`C${i}`, score!, { pushed: result.pushed, outbox });
    }
    const told = await until(() => one!.jobs('notify'), {
      what: 'every incident to end',
      accept: (jobs) => jobs.filter(({ data }) => data.kind === 'held').length === 10,
      timeoutMs: 15_000,
    });
    for (const kind of ['blocked', 'recovered', 'held']) {
      expect(told.filter(({ data }) => data.kind === kind).length, kind).toBe(10);
    }
    expect(told.length).toBe(30);
    const lateMs = told.filter(({ data }) => data.kind === 'recovered').map(({ data }) => data.epoch - data.at);
    expect(Math.max(...lateMs)).toBeLessThan(1_500);
    await until(async () => Object.keys(await one!.agenda()).length === 0, { what: 'the agenda to be empty' });
  });

  it('says why Redis does not take its schedules, which no restart would cure, and stops saying so when it does', async () => {
    const full = await startRedis();
    const admin = openRedis(full.url, 'commands');
    await whenReady(admin);
    releaseAtEnd(() => closeRedis(admin));
    await admin.config('SET', 'maxmemory', '1');
    const watcher = await watch(await stand(), full.url);
    await until(() => /schedules: .*OOM/.test(watcher.progress().trouble ?? ''), { what: 'the trouble to be told' });
    await admin.config('SET', 'maxmemory', '0');
    await until(() => watcher.progress().trouble === undefined, { what: 'the trouble to be over' });

    // Schedules that are there already are taken, so to say, even by a full Redis; jobs are not.
    await admin.config('SET', 'maxmemory', '1');
    await until(() => /OOM/.test(watcher.progress().trouble ?? ''), {
      what: 'the trouble with jobs to be told',
      timeoutMs: 15_000,
    });
  });
});
