import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import axios, { AxiosError } from 'axios';
import Fastify from 'fastify';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { freePort } from '../../deploy/local/redis-server.mjs';
import { guardAxios } from '../../examples/guarded-axios.mjs';
import { guardFetch } from '../../examples/guarded-fetch.mjs';
import { didNotThrow } from '../../src/publisher/track.js';
import { linkExamples } from '../support/examples.js';
import { startHttpReceiver } from '../support/http-receiver.js';
import { sharedRedisUrl, uniquePrefix } from '../support/redis.js';
import { realBench } from '../testing/benches.js';

beforeAll(linkExamples);

const refused = { code: 'CHANNEL_BLOCKED' };
describe('the wrapper of fetch', () => {
  it('blames the channel for 5xx, 429 and no answer at all, not for other 4xx, and stops calling once it is blocked', async () => {
    const bench = await realBench();
    const thirdParty = await startHttpReceiver();
    const call = guardFetch(bench.fuse);
    thirdParty.answerAlways({ status: 404 });
    for (let i = 0; i < 10; i += 1) expect((await call('A', thirdParty.url)).status).toBe(404);
    await bench.settle();
    expect(bench.fuse.isBlocked('A')).toBe(false);
    thirdParty.answerNext({ status: 500 }, { status: 503 }, { status: 429 });
    for (const status of [500, 503, 429]) expect((await call('B', thirdParty.url)).status).toBe(status);
    await expect(call('B', `http://127.0.0.1:${await freePort()}`)).rejects.toThrow('fetch failed');
    await bench.settle();
    expect(bench.told[0]!.evidence.map(({ code }) => code)).toEqual([
      'HTTP_500',
      'HTTP_503',
      'HTTP_429',
      'ECONNREFUSED',
    ]);
    await expect(call('B', thirdParty.url)).rejects.toMatchObject(refused);
    expect(thirdParty.requests).toHaveLength(13);
  });

  it('breaks off what takes too long, and leaves the caller’s own signal working without blaming the channel', async () => {
    const bench = await realBench();
    const thirdParty = await startHttpReceiver();
    thirdParty.answerAlways('hang');
    const call = guardFetch(bench.fuse, { timeout: 50 });
    for (let i = 0; i < 4; i += 1) await expect(call('A', thirdParty.url)).rejects.toMatchObject({ code: 'TIMEOUT' });
    const patient = guardFetch(bench.fuse);
    const aborted = Array.from({ length: 8 }, () => {
      const own = new AbortController();
      setImmediate(() => own.abort());
      return patient('B', thirdParty.url, { signal: own.signal });
    });
    expect((await Promise.allSettled(aborted)).every(({ status }) => status === 'rejected')).toBe(true);
    await bench.settle();
    expect([bench.fuse.isBlocked('A'), bench.fuse.isBlocked('B')]).toEqual([true, false]);
  });
});

describe('the wrapper of axios', () => {
  it('judges by status as that of fetch, throws axios’s own errors, and refuses a blocked channel', async () => {
    const bench = await realBench();
    const thirdParty = await startHttpReceiver();
    const client = guardAxios(axios.create({ baseURL: thirdParty.url, proxy: false }), bench.fuse, {
      channel: ({ url }: { url: string }) => url.slice(1),
    });
    thirdParty.answerAlways(({ path }) => ({ status: path === '/A' ? 404 : 503 }));
    for (let i = 0; i < 5; i += 1) {
      const missing = await client.get('/A').catch((error: unknown) => error);
      expect(missing).toBeInstanceOf(AxiosError);
      expect(missing).toMatchObject({ code: 'ERR_BAD_REQUEST', response: { status: 404 } });
    }
    for (let i = 0; i < 4; i += 1) await expect(client.get('/B')).rejects.toMatchObject({ response: { status: 503 } });
    const own = new AbortController();
    for (let i = 0; i < 5; i += 1) {
      const call = client.get('/C', { signal: own.signal });
      own.abort();
      expect(axios.isCancel(await call.catch((error: unknown) => error))).toBe(true);
    }
    await bench.settle();
    expect(['A', 'B', 'C'].map((channel) => bench.fuse.isBlocked(channel))).toEqual([false, true, false]);
    await expect(client.get('/B')).rejects.toMatchObject(refused);
    thirdParty.answerAlways({ status: 200, body: '{"code":"OK"}' });
    expect((await client.get('/A')).data).toEqual({ code: 'OK' });
  });
});

describe('the Fastify plugin', () => {
  it('offers app.fuse in every route, answers 503 with Retry-After for a blocked channel, and leaves other errors alone', async () => {
    const bench = await realBench();
    const { fuseline } = await import('../../examples/fastify-plugin.mjs');
    const app = Fastify();
    onTestFinished(() => app.close());
    await app.register(fuseline, { fuse: bench.fuse });
    app.get<{ Params: { channel: string } }>('/pay/:channel', ({ params: { channel } }) =>
      bench.fuse.guard(channel, () => Promise.reject(new Error('down')), { success: didNotThrow }),
    );
    const base = await app.listen({ port: 0, host: '127.0.0.1' });
    expect(Object.is((app as unknown as { fuse: unknown }).fuse, bench.fuse)).toBe(true);
    for (let i = 0; i < 4; i += 1) expect((await fetch(`${base}/pay/A`)).status).toBe(500);
    await bench.settle();
    const answer = await fetch(`${base}/pay/A`);
    expect([answer.status, await answer.json()]).toEqual([503, { code: 'CHANNEL_BLOCKED', channel: 'A' }]);
    const retryAfter = Number(answer.headers.get('retry-after'));
    expect(retryAfter).toBeGreaterThan(1_700);
    expect(retryAfter).toBeLessThanOrEqual(1_801);
  });

  it('opens a Fuseline of its own from the options, and closes it with the app', async () => {
    const { fuseline } = await import('../../examples/fastify-plugin.mjs');
    const app = Fastify();
    await app.register(fuseline, { url: sharedRedisUrl(), prefix: uniquePrefix() });
    const { fuse } = app as unknown as { fuse: Awaited<ReturnType<typeof realBench>>['fuse'] };
    expect(await fuse.guard('A', () => 1, { success: didNotThrow })).toBe(1);
    await app.close();
    expect(fuse.counts()).toMatchObject({ published: 1, sent: 1 });
    fuse.publish({ channel: 'A', success: true });
    expect(fuse.counts().dropped.closed).toBe(1);
  });
});

describe('the Nest module', () => {
  it('injects one Fuseline, guards a service’s calls, turns a refusal into 503, and sends what waits at the end', async () => {
    const { FUSE, FuselineModule } = await import('../../examples/nest/fuseline.module.mjs');
    const { PayService } = await import('../../examples/nest/pay.service.mjs');
    const bench = await realBench();
    class AppModule {}
    const prefix = uniquePrefix();
    Module({ imports: [FuselineModule.forRoot({ url: sharedRedisUrl(), prefix })], providers: [PayService] })(
      AppModule,
    );
    const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
    const service = app.get(PayService);
    const fuse = app.get(FUSE);
    expect(service.fuse).toBe(fuse);
    expect(await service.pay('A', async () => ({ code: 'OK' }))).toEqual({ code: 'OK' });
    const down = new Error('down');
    await expect(service.pay('A', () => Promise.reject(down))).rejects.toBe(down);
    await app.close();
    expect(fuse.counts()).toMatchObject({ published: 2, sent: 2, dropped: { shutdown: 0 } });

    await bench.block('A', 60_000);
    await bench.settle();
    const refusing = new PayService(bench.fuse);
    const error = await refusing.pay('A', async () => ({ code: 'OK' })).catch((reason: unknown) => reason);
    expect((error as { getStatus(): number }).getStatus()).toBe(503);
    expect((error as Error).cause).toMatchObject(refused);
  });
});
