import { readFile } from 'node:fs/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../deploy/local/redis-server.mjs';
import { parseRules } from '../../src/rules/parse.js';
import { linkExamples } from '../support/examples.js';
import { type HttpReceiver, startHttpReceiver } from '../support/http-receiver.js';
import { type RunningProcess, startProcess } from '../support/processes.js';
import { type RedisServer, startRedis } from '../support/redis.js';
import { until } from '../support/wait.js';

const RULES = JSON.stringify({ mode: 'on', defaults: { window: 10, successRate: 70, block: '1m', hold: '1m' } });

describe('examples', () => {
  let server: RedisServer;
  let thirdParty: HttpReceiver;
  let workers: RunningProcess;
  let env: Record<string, string>;

  beforeAll(async () => {
    await linkExamples();
    server = await startRedis();
    thirdParty = await startHttpReceiver();
    env = { FUSELINE_REDIS_URL: server.url, FUSELINE_HTTP_PORT: String(await freePort()), PORT: '0' };
    const client = new Redis(server.url);
    await client.set('fuseline:config', RULES);
    await client.quit();
    workers = startProcess('dist/src/cli/main.js', ['start', 'outcomes', 'recovery'], env);
    await until(async () => (await fetch(`http://127.0.0.1:${env.FUSELINE_HTTP_PORT}/readyz`)).ok, {
      what: 'the workers to be ready',
      timeoutMs: 20_000,
    });
  }, 60_000);
  afterAll(async () => {
    workers.kill('SIGTERM');
    await workers.exited;
  });

  it('checkout-fastify stops offering a channel that answers 200 with an error in the body, and ends cleanly', async () => {
    thirdParty.answerAlways(({ path }) => ({
      status: 200,
      body: JSON.stringify({ code: path.endsWith('ALIPAY') ? 'SYSTEM_ERROR' : 'OK' }),
    }));
    const checkout = startProcess('examples/checkout-fastify.mjs', [], {
      ...env,
      PAY_URL: thirdParty.url.replace(/\/$/, ''),
    });
    const line = await checkout.waitForLine(/port (\d+)/, { timeoutMs: 20_000 });
    const base = `http://127.0.0.1:${/port (\d+)/.exec(line)![1]}`;
    const offered = async () =>
      ((await (await fetch(`${base}/channels`)).json()) as { channel: string }[]).map(({ channel }) => channel);
    expect(await offered()).toEqual(['ALIPAY', 'WECHAT', 'STRIPE']);
    const pay = async (channel: string) => (await fetch(`${base}/pay/${channel}`, { method: 'POST' })).status;
    expect([await pay('WECHAT'), await pay('ALIPAY'), await pay('ALIPAY'), await pay('ALIPAY')]).toEqual([
      200, 502, 502, 502,
    ]);
    expect(await offered()).toContain('ALIPAY');
    expect(await pay('ALIPAY')).toBe(502);
    await until(async () => (await offered()).join() === 'WECHAT,STRIPE', { what: 'ALIPAY to vanish' });
    checkout.kill('SIGTERM');
    expect((await checkout.exited).code).toBe(0);
  }, 60_000);

  it('send-sms goes on to the next provider, and leaves a dead one alone once it is blocked', async () => {
    thirdParty.answerAlways(({ path }) => ({ status: path.endsWith('aliyun') ? 503 : 200 }));
    const send = async () => {
      const script = startProcess('examples/send-sms.mjs', [], { ...env, SMS_URL: thirdParty.url.replace(/\/$/, '') });
      expect((await script.exited).code).toBe(0);
      return script.lines.filter((line) => line.startsWith('sms-'));
    };
    const failing = ['sms-aliyun: failed', 'sms-tencent: sent'];
    expect(await send()).toEqual(failing);
    expect(await send()).toEqual(failing);
    expect(await send()).toEqual(failing);
    expect(await send()).toEqual(['sms-aliyun: failed, and it is blocked now', 'sms-tencent: sent']);
    expect(await send()).toEqual(['sms-tencent: sent']);
  }, 60_000);

  it('the rules of the demo are valid as they stand', async () => {
    const parsed = parseRules(await readFile('examples/rules.yaml', 'utf8'));
    expect(parsed).toMatchObject({ ok: true, warnings: [] });
  });
});
