import { describe, expect, it, onTestFinished } from 'vitest';
import { createFuseline, type FuselineOptions } from '../../src/fuseline.js';
import { ChannelBlockedError, ChannelTimeoutError } from '../../src/guard/errors.js';
import { openRedis } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import { setRules } from '../../src/rules/store.js';
import { startHttpReceiver } from '../support/http-receiver.js';
import { startProcess } from '../support/processes.js';
import { sharedRedisUrl, uniquePrefix } from '../support/redis.js';
import { startTcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/wait.js';

const url = sharedRedisUrl();

async function open(prefix: string, options: FuselineOptions = {}) {
  const fuse = await createFuseline({ url, prefix, logger: { info() {}, warn() {} }, ...options });
  onTestFinished(() => fuse.close({ timeoutMs: 200 }));
  return fuse;
}

/** What `fuseline block` and `fuseline unblock` do, as a person on call would, in a process of their own. */
async function byHand(prefix: string, ...args: string[]): Promise<void> {
  const command = startProcess('dist/src/cli/main.js', args, { FUSELINE_REDIS_URL: url, FUSELINE_PREFIX: prefix });
  const { code } = await command.exited;
  expect(code, command.lines.join('\n')).toBe(0);
}

describe('guard, with Redis, a third party and another process', () => {
  it('stops calling as soon as another process blocks the channel, and calls again when it lifts the block', async () => {
    const prefix = uniquePrefix();
    const client = openRedis(url, 'commands');
    onTestFinished(() => client.disconnect());
    await until(() => client.status === 'ready', { what: 'the connection' });
    await setRules({ client, keys: new Keys(prefix) }, { expectedVersion: 0, document: { mode: 'on' }, actor: 'test' });
    const fuse = await open(prefix);
    const thirdParty = await startHttpReceiver();
    const call = () =>
      fuse.guard('ALIPAY', ({ signal }) => fetch(thirdParty.url, { signal }), {
        success: ({ ok }) => ok,
        timeout: 5_000,
      });

    expect((await call()).status).toBe(200);
    await byHand(prefix, 'block', 'ALIPAY', '--for', '10m', '--reason', 'maintenance');
    await until(() => fuse.isBlocked('ALIPAY'), { what: 'the block to be seen here' });
    const refused = await call().catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(ChannelBlockedError);
    expect(refused).toMatchObject({ channel: 'ALIPAY', state: 'open', reason: 'manual' });
    expect(await fuse.admit('ALIPAY')).toMatchObject({ admitted: false, why: 'blocked' });
    expect(thirdParty.requests).toHaveLength(1);

    await byHand(prefix, 'unblock', 'ALIPAY');
    await until(() => !fuse.isBlocked('ALIPAY'), { what: 'the end to be seen here' });
    expect((await call()).status).toBe(200);
    expect(thirdParty.requests).toHaveLength(2);
    await fuse.flush();
    expect(fuse.counts()).toMatchObject({ published: 2, sent: 2 });
  });

  it('breaks a request off that gets no answer, and puts TIMEOUT with its duration into the log', async () => {
    const prefix = uniquePrefix();
    const fuse = await open(prefix, { source: 'checkout' });
    const thirdParty = await startHttpReceiver();
    thirdParty.answerAlways('hang');
    let signal: AbortSignal | undefined;
    const call = fuse.guard(
      'ALIPAY',
      (guarded) => {
        signal = guarded.signal;
        return fetch(thirdParty.url, { signal });
      },
      { success: ({ ok }) => ok, timeout: 300 },
    );
    await expect(call).rejects.toBeInstanceOf(ChannelTimeoutError);
    expect(signal!.aborted).toBe(true);
    expect(await fuse.flush()).toBe(true);
    expect(fuse.counts()).toMatchObject({ published: 1, sent: 1 });

    const client = openRedis(url, 'commands');
    onTestFinished(() => client.disconnect());
    await until(() => client.status === 'ready', { what: 'the connection' });
    const keys = new Keys(prefix);
    const entries = (
      await Promise.all([0, 1, 2, 3].map((shard) => client.xrange(keys.outcomes(shard), '-', '+')))
    ).flat();
    const [outcome] = JSON.parse(entries[0]![1][entries[0]![1].indexOf('outcomes') + 1]!);
    expect(outcome).toMatchObject({ channel: 'ALIPAY', success: false, code: 'TIMEOUT', source: 'checkout' });
    expect(outcome.durationMs).toBeGreaterThanOrEqual(298);
    expect(outcome.durationMs).toBeLessThan(5_000);
  });

  it('calls as if it were not there while Redis is away, and fails no call for what cannot be published', async () => {
    const proxy = await startTcpProxy({ port: Number(new URL(url).port) });
    const fuse = await open(uniquePrefix(), { url: proxy.url });
    await proxy.refuse();
    const thirdParty = await startHttpReceiver();
    const call = () => fuse.guard('ALIPAY', () => fetch(thirdParty.url), { success: ({ ok }) => ok, timeout: 5_000 });
    const startedAt = performance.now();
    expect((await call()).status).toBe(200);
    await thirdParty.stop();
    await expect(call()).rejects.toThrow('fetch failed');
    expect(performance.now() - startedAt).toBeLessThan(2_000);
    expect(fuse.counts()).toMatchObject({ published: 2 });
  });
});
