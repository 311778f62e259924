import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { closeRedis, openRedis, whenReady } from '../../src/redis/client.js';
import { until } from '../support/wait.js';
import { bench, rulesOf } from './support.js';

const HOUR = 3_600_000;

describe('a reader', () => {
  it('knows at its first snapshot what is blocked, and tells nobody about it as news', async () => {
    const { write, now, reader } = await bench();
    const at = await now();
    await write('ALIPAY', { epoch: at, until: at + HOUR });
    await write('微信支付', { epoch: at, state: 'closed', hold: at + HOUR });
    const fuse = await reader();
    expect(await fuse.ready).toBe(true);
    expect(fuse.isBlocked('ALIPAY')).toBe(true);
    expect(fuse.isBlocked('微信支付')).toBe(false);
    expect(fuse.stateOf('ALIPAY')).toMatchObject({
      state: 'open',
      epoch: at,
      until: at + HOUR,
      blocked: true,
      incident: '1',
    });
    expect(fuse.status()).toMatchObject({ connected: true, ready: true, blocked: 1 });
    expect(fuse.told).toEqual([]);
  });

  it('hands back the caller’s own elements in the caller’s order, told by string, property or function', async () => {
    const { write, now, reader } = await bench();
    await write('b', { epoch: 5, until: (await now()) + HOUR });
    const fuse = await reader();
    const items = [{ channel: 'c' }, { channel: 'b' }, { channel: 'a' }];
    const visible = fuse.visible(items);
    expect(visible).toEqual([items[0], items[2]]);
    expect(visible[1]).toBe(items[2]);
    expect(fuse.visible(['c', 'b', 'a'])).toEqual(['c', 'a']);
    expect(fuse.visible([{ id: 'b' }, { id: 'a' }], { by: 'id' })).toEqual([{ id: 'a' }]);
    expect(fuse.visible([['b'], ['a']], { by: ([name]) => name! })).toEqual([['a']]);
  });

  it('never throws for a hostile name: it is not blocked, and counted', async () => {
    const { reader } = await bench();
    const fuse = await reader();
    const hostile: unknown[] = [
      '',
      '{x}',
      '\ud800',
      'a\u0000',
      ' x',
      'x'.repeat(10_000_000),
      undefined,
      null,
      7,
      {},
      Symbol('s'),
    ];
    for (const name of hostile) expect(fuse.isBlocked(name as string)).toBe(false);
    expect(fuse.visible(hostile, { by: (item) => item as string })).toEqual(hostile);
    expect(fuse.status().counters.invalidNames).toBe(2 * hostile.length);
  });

  it('finds a channel under both spellings of its name', async () => {
    const { write, now, reader } = await bench();
    await write('caf\u00e9', { epoch: 5, until: (await now()) + HOUR });
    expect((await reader()).isBlocked('cafe\u0301')).toBe(true);
  });

  it('2.08 shows a blocked channel again at its end, without traffic and without news', async () => {
    const { write, now, reader, client, keys } = await bench();
    const at = await now();
    await write('a', { epoch: at, until: at + 700 });
    const fuse = await reader({ resyncMs: 60_000 });
    expect(fuse.isBlocked('a')).toBe(true);
    await until(() => !fuse.isBlocked('a'), { what: 'the end of the block', intervalMs: 1 });
    const late = (await now()) - (at + 700);
    expect(late).toBeGreaterThanOrEqual(-20);
    expect(late).toBeLessThan(300);
    expect(await client.hget(keys.state('a'), 'state')).toBe('open');
    expect(fuse.stateOf('a')).toMatchObject({ state: 'closed', until: 0 });
    expect(fuse.told).toEqual([]);
  });

  it('judges by Redis time: a wall clock that is hours off moves no end', async () => {
    const { write, now, reader } = await bench();
    const at = await now();
    await write('a', { epoch: at, until: at + 60_000 });
    vi.useFakeTimers({ toFake: ['Date'], now: at + 10 * HOUR });
    try {
      const fuse = await reader();
      await until(() => fuse.status().counters.snapshots >= 2, { what: 'a second snapshot' });
      expect(fuse.isBlocked('a')).toBe(true);
    } finally {
      vi.useRealTimers();
    }
  });

  it('waits for the end of a block of 40 days in steps, because setTimeout knows only 24', async () => {
    const { write, now, reader } = await bench();
    const overflows: string[] = [];
    const onWarning = ({ name }: Error) => void overflows.push(name);
    process.on('warning', onWarning);
    onTestFinished(() => void process.off('warning', onWarning));
    const at = await now();
    await write('a', { epoch: at, until: at + 40 * 24 * HOUR });
    const fuse = await reader();
    await until(() => fuse.status().counters.snapshots >= 2, { what: 'a second snapshot' });
    expect(overflows).not.toContain('TimeoutOverflowWarning');
    expect(fuse.isBlocked('a')).toBe(true);
  });

  it('follows hands on the block key: moved, stripped of its end, deleted', async () => {
    const { write, now, reader, client, keys } = await bench();
    const at = await now();
    await write('a', { epoch: at, until: at + HOUR });
    const fuse = await reader({ resyncMs: 100 });
    await client.pexpireat(keys.blocked('a'), at + 2 * HOUR);
    await until(() => fuse.stateOf('a').until === at + 2 * HOUR, { what: 'the end to follow' });
    await client.persist(keys.blocked('a'));
    await until(() => fuse.stateOf('a').until === -1, { what: 'a block without end' });
    await client.del(keys.blocked('a'));
    await until(() => !fuse.isBlocked('a'), { what: 'the channel to be visible' });
    expect(fuse.told).toEqual([]);
  });

  it('takes a block key of a foreign program for a block, soon after the channel is asked about', async () => {
    const { reader, client, keys } = await bench();
    const fuse = await reader({ resyncMs: 60_000 });
    await client.set(keys.blocked('a'), '1', 'EX', 100);
    await until(() => fuse.isBlocked('a'), { what: 'the foreign block' });
    expect(fuse.stateOf('a')).toMatchObject({ state: 'open', reason: 'external', epoch: 0 });
  });

  it('sees a foreign key come and go on a channel that it was told to watch', async () => {
    const { reader, client, keys } = await bench();
    const fuse = await reader({ resyncMs: 100, channels: ['a', 'b'] });
    await client.set(keys.blocked('a'), 'whatever');
    await until(() => fuse.isBlocked('a'), { what: 'the foreign block' });
    expect(fuse.stateOf('a').until).toBe(-1);
    await client.del(keys.blocked('a'));
    await until(() => !fuse.isBlocked('a'), { what: 'its end' });
    expect(fuse.isBlocked('b')).toBe(false);
  });

  it('hides nothing in mode off, though a block key exists, and tells the state all the same', async () => {
    const { write, now, reader } = await bench();
    await write('a', { epoch: 5, until: (await now()) + HOUR });
    const policies: Record<string, { mode: 'on' | 'off' }> = { a: { mode: 'off' } };
    const fuse = await reader({ rules: rulesOf({ policies }) });
    expect(fuse.isBlocked('a')).toBe(false);
    expect(fuse.visible(['a'])).toEqual(['a']);
    expect(fuse.stateOf('a')).toMatchObject({ state: 'open', blocked: false });
    policies.a = { mode: 'on' };
    expect(fuse.isBlocked('a')).toBe(true);
  });

  it('1.23 2.13 never shows fewer than minVisible, least bad first, and meters it', async () => {
    const { write, now, reader } = await bench();
    const at = await now();
    const group = 'pay';
    await write('a', { epoch: at, until: at + 3 * HOUR });
    await write('b', { epoch: at, until: at + HOUR });
    await write('c', { epoch: at, until: at + 2 * HOUR });
    await write('byHand', { epoch: at, until: at + 1_000 + HOUR / 2, reason: 'manual' });
    const policies = { a: { group }, b: { group }, c: { group }, byHand: { group } };
    const floorOf = (pay: number) => ({ rules: rulesOf({ policies, minVisible: { pay } }) });
    const fuse = await reader(floorOf(2));
    const choice = fuse.select(['a', 'byHand', 'b', 'c']);
    expect(choice).toMatchObject({ items: ['b', 'c'], floored: ['b', 'c'] });
    expect(choice.ageMs).toBeLessThan(5_000);
    expect(fuse.isBlocked('b')).toBe(true);
    expect(fuse.visible(['b', 'healthy'])).toEqual(['b', 'healthy']);
    expect(fuse.status().counters.floored).toBe(3);
    expect((await reader(floorOf(0))).select(['a', 'byHand', 'b', 'c'])).toMatchObject({ items: [], floored: [] });
    expect((await reader()).visible(['a', 'b'])).toEqual([]);
  });

  it('2.14 a key of the wrong type harms its own channel alone, and is no outage', async () => {
    const { write, now, reader, client, keys } = await bench();
    await write('good', { epoch: 5, until: (await now()) + HOUR });
    await client.set(keys.state('bad'), 'no hash');
    await client.zadd(keys.agenda, 0, 'bad');
    await client.hset(keys.state('damaged'), { epoch: 'x', state: 'open' });
    await client.zadd(keys.agenda, 0, 'damaged');
    await client.rpush(keys.blocked('list'), 'x');
    await client.zadd(keys.agenda, 0, 'list');
    const fuse = await reader();
    expect(fuse.isBlocked('good')).toBe(true);
    expect(fuse.isBlocked('bad')).toBe(false);
    expect(fuse.isBlocked('damaged')).toBe(false);
    expect(fuse.isBlocked('list'), 'EXISTS is the contract, whatever the type').toBe(true);
    expect(fuse.status()).toMatchObject({ connected: true });
    expect(fuse.status().counters.channelFaults).toBeGreaterThanOrEqual(3);
    expect(fuse.warnings.filter((text) => text.includes('channel bad')).join()).toContain('WRONGTYPE');
  });

  it('remembers a bounded number of channels asked about, the least recently asked one goes first', async () => {
    const { reader } = await bench();
    const fuse = await reader({ askedMost: 100 });
    for (let n = 0; n < 1_000; n++) {
      fuse.isBlocked('regular');
      fuse.isBlocked(`order-${n}`);
    }
    expect(fuse.status().asked).toBe(100);
    fuse.isBlocked('regular');
    expect(fuse.status().asked).toBe(100);
  });

  it('uses the caller’s client and leaves it open', async () => {
    const { url, write, tell, now, reader } = await bench();
    const client = openRedis(url, 'commands');
    try {
      await whenReady(client);
      const at = await now();
      await write('a', { epoch: at, until: at + HOUR });
      const fuse = await reader({ client });
      expect(fuse.isBlocked('a')).toBe(true);
      await until(() => fuse.status().following, { what: 'the feed to be followed', timeoutMs: 5_000 });
      await tell({ channel: 'b', kind: 'blocked', epoch: at + 1, until: at + HOUR });
      await until(() => fuse.told.length === 1, { what: 'the transition' });
      await fuse.close();
      expect(client.status).toBe('ready');
      expect(await client.ping()).toBe('PONG');
      expect(client.listenerCount('ready')).toBe(0);
    } finally {
      await closeRedis(client);
    }
  });
});
