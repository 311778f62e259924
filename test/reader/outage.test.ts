import { describe, expect, it } from 'vitest';
import { startProcess } from '../support/processes.js';
import { startRedis } from '../support/redis.js';
import { until } from '../support/wait.js';
import { bench, rulesOf } from './support.js';

const HOUR = 3_600_000;

describe('a reader and a Redis that fails', () => {
  it('Redis away at start: starts open, says so once, and heals alone', async () => {
    const first = await startRedis();
    const { write, now, reader } = await bench(first.url);
    await first.stop();
    const startedAt = performance.now();
    const fuse = await reader({ readyWithinMs: 200 });
    expect(await fuse.ready).toBe(false);
    expect(performance.now() - startedAt).toBeLessThan(1_500);
    expect(fuse.isBlocked('a')).toBe(false);
    expect(fuse.select(['a'])).toMatchObject({ items: ['a'], ageMs: Number.POSITIVE_INFINITY });
    await until(() => fuse.warnings.length > 0, { what: 'the warning' });
    expect(fuse.status()).toMatchObject({ connected: false, ready: false });
    expect(fuse.status().counters.answeredOpen).toBe(2);

    await startRedis({ port: Number(new URL(first.url).port) });
    const at = await until(now, { what: 'the new server' });
    await write('a', { epoch: at, until: at + HOUR });
    await until(() => fuse.isBlocked('a'), { what: 'the reader to heal' });
    expect(fuse.status()).toMatchObject({ connected: true, ready: true });
    expect(fuse.warnings).toHaveLength(1);
    expect(fuse.warnings[0]).toContain('starts open');
  });

  it('2.14 a frozen Redis: answers from memory at once, ends blocks in time, and goes on after the thaw', async () => {
    const server = await startRedis();
    const { write, tell, now, reader } = await bench(server.url);
    const at = await now();
    await write('a', { epoch: at, until: at + HOUR });
    await write('short', { epoch: at, until: at + 1_500 });
    const fuse = await reader();
    await until(() => fuse.status().following, { what: 'the feed to be followed' });
    process.kill(server.pid!, 'SIGSTOP');
    try {
      await until(() => !fuse.status().connected, { what: 'the outage to be noticed' });
      const took: number[] = [];
      let hidden = 0;
      for (let n = 0; n < 1_000; n++) {
        const before = performance.now();
        if (fuse.isBlocked('a')) hidden++;
        took.push(performance.now() - before);
      }
      expect(hidden).toBe(1_000);
      expect(took.sort((a, b) => a - b)[989]).toBeLessThan(0.5);
      await until(() => !fuse.isBlocked('short'), { what: 'the end of the short block' });
      expect(fuse.warnings).toHaveLength(1);
      expect(fuse.warnings[0]).toContain('from memory');
    } finally {
      process.kill(server.pid!, 'SIGCONT');
    }
    await until(() => fuse.status().connected, { what: 'the thaw' });
    await tell({ channel: 'b', kind: 'recovered', epoch: at + 1 });
    await until(() => fuse.told.length === 1, { what: 'news after the thaw' });
  });

  it('never scans, and a snapshot of a healthy fleet costs one EXISTS for hundreds of channels', async () => {
    const server = await startRedis();
    const { write, now, reader, client } = await bench(server.url);
    await write('a', { epoch: 5, until: (await now()) + HOUR });
    const policies = Object.fromEntries(Array.from({ length: 400 }, (_, n) => [`named-${n}`, {}]));
    const fuse = await reader({ resyncMs: 50, rules: rulesOf({ policies }) });
    await client.config('RESETSTAT');
    const before = fuse.status().counters.snapshots;
    await until(() => fuse.status().counters.snapshots >= before + 10, { what: 'ten snapshots' });
    const calls = Object.fromEntries(
      [...(await client.info('commandstats')).matchAll(/cmdstat_(\S+):calls=(\d+)/g)].map(([, name, n]) => [
        name,
        Number(n),
      ]),
    );
    expect(Object.keys(calls).filter((name) => /^(scan|keys|hscan|zscan|sscan|subscribe|hgetall)$/.test(name))).toEqual(
      [],
    );
    expect(calls.exists).toBeLessThanOrEqual(14);
    expect(calls.hmget).toBeLessThanOrEqual(14);
  });

  it('2.09 a block lifted by hand is visible in every process within the bound', async () => {
    const { write, now, client, keys, url } = await bench();
    const at = await now();
    await write('a', { epoch: at, until: at + HOUR });
    const services = [1, 2, 3].map(() => startProcess('test/reader/watch.mjs', [url, keys.prefix]));
    await Promise.all(services.map((service) => service.waitForLine(/^ready true/)));
    await Promise.all(services.map((service) => service.waitForLine(/^hidden/)));
    const liftedAt = Date.now();
    await client.del(keys.blocked('a'));
    const lines = await Promise.all(services.map((service) => service.waitForLine(/^visible/)));
    for (const line of lines) expect(Number(line.split(' ')[1]) - liftedAt).toBeLessThan(3_500);
  });
});
