import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { createPublisher } from '../../src/publisher/index.js';
import { closeRedis, openRedis, whenReady } from '../../src/redis/client.js';
import { startProcess } from '../support/processes.js';
import { sharedRedisUrl, startRedis, uniquePrefix } from '../support/redis.js';
import { startTcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/wait.js';
import { collector } from '../transport/conformance.js';
import { openRedisLog } from '../transport/redis-log.js';

describe('createPublisher', () => {
  it('brings outcomes to a worker over a real Redis, and holds them while Redis is away', async () => {
    const server = await startRedis();
    const proxy = await startTcpProxy({ port: Number(new URL(server.url).port) });
    const log = await openRedisLog(server.url);
    const seen = collector();
    const stop = new AbortController();
    const reading = log.reader().run(seen.handler, stop.signal);
    const publisher = createPublisher<'ALIPAY'>({ url: proxy.url, prefix: log.keys.prefix });
    publisher.publish({ channel: 'ALIPAY', success: true, durationMs: 1 });
    await until(() => seen.outcomes.length === 1, { what: 'the first outcome' });
    await proxy.refuse();
    await until(
      () => {
        publisher.publish({ channel: 'ALIPAY', success: true, durationMs: 2 });
        return publisher.counts().buffered > 3;
      },
      { what: 'outcomes to wait' },
    );
    await proxy.accept();
    expect(await publisher.flush()).toBe(true);
    const { published, sent, unknown } = publisher.counts();
    expect(sent + unknown).toBe(published);
    await until(() => seen.outcomes.length >= sent, { what: 'what waited' });
    expect(seen.outcomes.length).toBeLessThanOrEqual(sent + unknown);
    expect(seen.outcomes.slice(1).some(({ agoMs }) => (agoMs ?? 0) > 0)).toBe(true);
    stop.abort();
    await Promise.all([reading, publisher.close(), log.close()]);
  });

  it("uses the settings of a caller's client, and neither closes it nor needs it open", async () => {
    const log = await openRedisLog(sharedRedisUrl());
    const theirs = openRedis(sharedRedisUrl(), 'commands');
    await whenReady(theirs);
    const publisher = createPublisher({ client: theirs, prefix: log.keys.prefix });
    publisher.publish({ channel: 'ALIPAY', success: true });
    expect(await publisher.flush()).toBe(true);
    await publisher.close();
    expect(theirs.status).toBe('ready');
    expect(await theirs.ping()).toBe('PONG');
    expect(publisher.counts().sent).toBe(1);
    await Promise.all([closeRedis(theirs), log.close()]);
  });

  it('wants to be told exactly one way to the log', () => {
    expect(() => createPublisher({})).toThrow(/exactly one of url, client, kafka and writer, got 0/);
    expect(() => createPublisher({ url: 'http://x' })).toThrow(/not a Redis URL/);
  });

  it('checks the names of channels at compile time, if they are given', () => {
    const publisher = createPublisher<'ALIPAY' | 'WECHAT'>({ url: 'redis://127.0.0.1:1' });
    publisher.publish({ channel: 'WECHAT', success: true });
    // @ts-expect-error a name that is not in the list
    publisher.publish({ channel: 'WECHATT', success: true });
    // @ts-expect-error success is required
    expect(() => publisher.track('ALIPAY', () => 1, {})).toThrow('track wants options.success');
    void publisher.close({ timeoutMs: 0 });
  });

  it.each([
    ['connected', sharedRedisUrl],
    ['without a Redis at all', () => 'redis://127.0.0.1:1'],
    ['waiting for a host that does not answer', () => 'redis://10.255.255.1:6379'],
  ])('does not keep the process alive, %s', async (_name, url) => {
    const running = startProcess('test/publisher/ends.mjs', [url(), uniquePrefix()]);
    const late = new Promise((resolve) => setTimeout(resolve, 4_000, 'still running'));
    expect(await Promise.race([running.exited, late])).toEqual({ code: 0, signal: null });
    expect(running.lines).toContain('published');
  });

  it('loses nothing in a process that flushes before it ends', async () => {
    const log = await openRedisLog(sharedRedisUrl());
    const running = startProcess('test/publisher/ends.mjs', [sharedRedisUrl(), log.keys.prefix, 'flush']);
    expect(await running.exited).toEqual({ code: 0, signal: null });
    expect(running.lines).toContain('flushed true');
    expect(
      (await log.client.xlen(log.keys.outcomes(2))) +
        (await log.client.xlen(log.keys.outcomes(0))) +
        (await log.client.xlen(log.keys.outcomes(1))) +
        (await log.client.xlen(log.keys.outcomes(3))),
    ).toBe(1);
    await log.close();
  });
});

describe('the entry fuseline/publisher', () => {
  it('loads neither bullmq nor kafkajs', () => {
    const packages = new Set<string>();
    const seen = new Set<string>();
    const visit = (file: string): void => {
      if (seen.has(file)) return;
      seen.add(file);
      for (const [, what, from] of readFileSync(file, 'utf8').matchAll(
        /^(import|export)\s(?!type\b)[^;]*?from '([^']+)'/gm,
      )) {
        expect(what).toBeDefined();
        if (from!.startsWith('.')) visit(join(dirname(file), from!.replace(/\.js$/, '.ts')));
        else packages.add(from!);
      }
    };
    visit(fileURLToPath(new URL('../../src/publisher/index.ts', import.meta.url)));
    expect(seen.size).toBeGreaterThan(10);
    expect([...packages].filter((name) => !name.startsWith('node:')).sort()).toEqual(['ioredis', 'zod']);
  });
});
