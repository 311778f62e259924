import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { giveBackPermit, lendPermit } from '../../src/channel/permits.js';
import { createAdmit } from '../../src/guard/admit.js';
import { createGuard } from '../../src/guard/guard.js';
import { createLender } from '../../src/guard/lender.js';
import { didNotThrow, track } from '../../src/publisher/track.js';
import { closeRedis, openRedis, whenReady } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import { createFakeFuseline } from '../../src/testing/index.js';
import { sharedRedisUrl, uniquePrefix } from '../support/redis.js';
import { startTcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/wait.js';

const success = didNotThrow;

/** A half-open channel `A` of a prefix of the test's own. */
async function bench(url = sharedRedisUrl()) {
  const keys = new Keys(uniquePrefix());
  const client = openRedis(sharedRedisUrl(), 'commands');
  const own = openRedis(url, 'commands');
  onTestFinished(() => closeRedis(client));
  onTestFinished(() => own.disconnect());
  await Promise.all([whenReady(client), whenReady(own)]);
  await client.set(keys.blocked('A'), 'half-open', 'PX', 60_000);
  const lend = (owner: string, permits = 2, leaseMs = 60_000) =>
    lendPermit(client, keys, 'A', { owner, permits, leaseMs });
  const out = () => client.zcard(keys.permits('A'));
  return { keys, client, own, lend, out };
}

describe('permits in Redis', () => {
  it('1.28 are never more at once than there are, and one that was given back can be lent again', async () => {
    const { lend, client, keys, out } = await bench();
    const asked = await Promise.all(Array.from({ length: 20 }, (_, i) => lend(`owner-${i}`)));
    expect(asked.filter(Boolean)).toHaveLength(2);
    expect(asked.slice(0, 2)).toEqual([true, true]);
    await giveBackPermit(client, keys, 'A', 'owner-0');
    await giveBackPermit(client, keys, 'A', 'owner-0');
    expect([await lend('x'), await lend('y')]).toEqual([true, false]);
    expect(await out()).toBe(2);
  });

  it('come back at their deadline by themselves, each at its own, and leave no key behind', async () => {
    const { lend, client, keys } = await bench();
    expect([await lend('short', 2, 80), await lend('long', 2, 60_000), await lend('no')]).toEqual([true, true, false]);
    expect(await client.pttl(keys.permits('A'))).toBeGreaterThan(50_000);
    await until(() => lend('next', 2, 80), { what: 'the short one to be free', timeoutMs: 5_000 });
    await giveBackPermit(client, keys, 'A', 'long');
    await lend('last', 2, 80);
    await until(async () => (await client.exists(keys.permits('A'))) === 0, { what: 'the key to go' });
  });

  it('are lent again to who asks a second time, because the first answer was lost', async () => {
    const { lend, out } = await bench();
    expect([await lend('one', 1), await lend('one', 1), await lend('two', 1)]).toEqual([true, true, false]);
    expect(await out()).toBe(1);
  });

  it('are for half-open channels alone: not for one that is open, nor for one that is back in use', async () => {
    const { lend, client, keys, out } = await bench();
    await client.set(keys.blocked('A'), 'open');
    expect(await lend('one')).toBe(false);
    await client.del(keys.blocked('A'));
    expect(await lend('one')).toBe(false);
    expect(await out()).toBe(0);
    await client.lpush(keys.blocked('A'), 'not ours');
    await expect(lend('one')).rejects.toThrow('WRONGTYPE');
  });
});

/** Admission to `A`, half-open with so many permits, as a service has it. */
function admission(
  { keys, own }: Awaited<ReturnType<typeof bench>>,
  { permits = 1, leaseMs = 60_000, deadlineMs = 5_000 } = {},
) {
  const lender = createLender(own, keys, deadlineMs);
  const fuse = createFakeFuseline();
  const trial = { step: 0, block: 1, permits };
  const stateOf = (channel: string) => ({
    ...fuse.stateOf(channel),
    state: 'half-open' as const,
    blocked: true,
    trial,
  });
  const reader = { isBlocked: () => true, isFloored: () => false, stateOf };
  const admit = createAdmit(reader, { lend: lender.lend, leaseMs });
  const guard = createGuard({ admit, publish: fuse.publish, stateOf });
  return { admit: async (...args: Parameters<typeof admit>) => admit(...args), guard, counts: lender.counts, fuse };
}

describe('a call to a half-open channel with permits', () => {
  it('holds one while it lasts, and gives it back however it ends: well, badly, ignored, late, thrown at once', async () => {
    const place = await bench();
    const { guard, fuse } = admission(place);
    const seen: number[] = [];
    const calls = [
      async () => 1,
      () => Promise.reject(new Error('down')),
      () => Promise.reject(new DOMException('the user left', 'AbortError')),
      () => new Promise(() => {}),
      () => {
        throw new Error('at once');
      },
    ];
    for (const call of calls) {
      const watched = async () => {
        seen.push(await place.out());
        return call();
      };
      await guard('A', watched, { success, timeout: 200 }).catch(() => {});
      await until(async () => (await place.out()) === 0, { what: 'the permit to come back' });
    }
    expect(seen).toEqual([1, 1, 1, 1, 1]);
    expect(fuse.published.map(({ code }) => code)).toEqual([
      undefined,
      'Error',
      'CLIENT_CANCELLED',
      'TIMEOUT',
      'Error',
    ]);
  });

  it('keeps it for a moment when it ended badly, until the block is known to all, and gives it back at once when it ended well', async () => {
    const place = await bench();
    const { admit, guard, fuse } = admission(place);
    // On the connection of the permits: asked after whatever was given back.
    const stillOut = () => place.own.zcard(place.keys.permits('A'));
    await guard('A', () => 1, { success });
    expect(await stillOut()).toBe(0);
    expect(await guard('A', () => 1, { success: () => false })).toBe(1);
    expect(await stillOut()).toBe(1);
    expect(await admit('A')).toMatchObject({ admitted: false });
    await until(async () => (await stillOut()) === 0, { what: 'the permit to come back' });
    const lent = await admit('A');
    await track(fuse.publish, 'A', () => Promise.reject(new Error('down')), { success, admission: lent }).catch(
      () => {},
    );
    expect(await stillOut()).toBe(1);
    lent.release();
    expect(await stillOut()).toBe(1);
  });

  it('is lent to `track` too, which gives it back', async () => {
    const place = await bench();
    const { admit } = admission(place);
    const admission1 = await admit('A');
    expect(admission1).toMatchObject({ admitted: true, why: 'half-open' });
    expect(await admit('A')).toMatchObject({ admitted: false, why: 'half-open' });
    await track(
      () => {},
      'A',
      async () => 1,
      { success, admission: admission1 },
    );
    await until(async () => (await place.out()) === 0, { what: 'the permit to come back' });
    admission1.release();
    expect(await admit('A')).toMatchObject({ admitted: true });
    // A second release of the first is no release of the second.
    admission1.release();
    await sleep(20);
    expect(await place.out()).toBe(1);
  });

  it('borrows for its own time and a second, or for as long as the setting says', async () => {
    const place = await bench();
    const { admit } = admission(place, { permits: 2, leaseMs: 30_000 });
    await admit('A', { timeout: 5_000 });
    expect(await place.client.pttl(place.keys.permits('A'))).toBeLessThanOrEqual(6_000);
    await admit('A');
    const left = await place.client.pttl(place.keys.permits('A'));
    expect(left).toBeGreaterThan(25_000);
    expect(left).toBeLessThanOrEqual(30_000);
  });

  it('is not made when Redis does not answer within 50 ms, and what it lends too late goes back unused', async () => {
    const proxy = await startTcpProxy({ port: Number(new URL(sharedRedisUrl()).port) });
    const place = await bench(proxy.url);
    const { admit, counts } = admission(place, { deadlineMs: 50 });
    proxy.pause();
    const startedAt = performance.now();
    expect(await admit('A')).toMatchObject({ admitted: false, why: 'half-open' });
    expect(performance.now() - startedAt).toBeLessThan(1_000);
    expect(counts()).toEqual({ lent: 0, refused: 0, unanswered: 1 });
    // Redis is asked by nobody for a moment: other calls are refused at once.
    expect(await admit('A')).toMatchObject({ admitted: false });
    expect(counts()).toMatchObject({ refused: 1, unanswered: 1 });
    proxy.resume();
    await until(async () => (await admit('A')).admitted, { what: 'a permit, once Redis answers' });
    expect(await place.out()).toBe(1);
  });

  it('is not made while Redis is away, though it was known to be half-open', async () => {
    const proxy = await startTcpProxy({ port: Number(new URL(sharedRedisUrl()).port) });
    const place = await bench(proxy.url);
    const { guard, counts } = admission(place);
    await proxy.refuse();
    const call = guard('A', () => 1, { success, fallback: () => 'another way' });
    expect(await call).toBe('another way');
    expect(counts()).toMatchObject({ lent: 0, unanswered: 1 });
  });

  it('costs Redis one question at a time and 50 a second from a process, however many calls there are', async () => {
    const place = await bench();
    const { admit, counts } = admission(place);
    expect(await admit('A')).toMatchObject({ admitted: true });
    let asked = 0;
    const send = place.own.evalsha.bind(place.own) as (...args: unknown[]) => Promise<unknown>;
    place.own.evalsha = ((...args: unknown[]) => {
      asked += 1;
      return send(...args);
    }) as typeof place.own.evalsha;
    const startedAt = performance.now();
    while (performance.now() - startedAt < 200) await Promise.all(Array.from({ length: 50 }, () => admit('A')));
    expect(counts().refused).toBeGreaterThan(500);
    expect(asked).toBeGreaterThan(0);
    expect(asked).toBeLessThanOrEqual(11);
  });
});
