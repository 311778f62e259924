import { describe, expect, it } from 'vitest';
import { CLIENT_CANCELLED } from '../../src/domain/ignored-codes.js';
import { createFakeFuseline } from '../../src/testing/index.js';
import { type Bench, fakeBench, realBench } from './benches.js';

function fail(bench: Bench, channel: string, times: number): void {
  for (let i = 0; i < times; i += 1) bench.fuse.publish({ channel, success: false, code: 'E1', source: 'shop' });
}

const kinds = ({ told }: Bench, channel: string) =>
  told.filter((one) => one.channel === channel).map(({ kind }) => kind);

/** What a service sees must be the same on the fake and on real Redis with real workers. */
describe.each([
  ['the fake', fakeBench],
  ['the real thing', realBench],
])('on %s', (_name, open) => {
  it('the fourth failure of ten at 70 % hides a channel, the third does not', async () => {
    const bench = await open();
    const { fuse } = bench;
    fail(bench, 'A', 3);
    await bench.settle();
    expect(fuse.isBlocked('A')).toBe(false);
    expect(fuse.visible(['B', 'A', 'C'])).toEqual(['B', 'A', 'C']);
    fail(bench, 'A', 1);
    await bench.settle();
    expect(fuse.isBlocked('A')).toBe(true);
    expect(fuse.visible([{ channel: 'B' }, { channel: 'A' }])).toEqual([{ channel: 'B' }]);
    expect(fuse.select(['A', 'B'])).toMatchObject({ items: ['B'], floored: [] });
    const { epoch, since, until, incident, ...state } = fuse.stateOf('A');
    expect(state).toEqual({ channel: 'A', state: 'open', blocked: true, reason: 'success-rate', trips: 1 });
    expect(until - since).toBe(30 * 60_000);
    expect(incident).toBe(String(epoch));
  });

  it('tells block, recovery, relapse, and the end of the incident, each once and with the window that decided', async () => {
    const bench = await open();
    fail(bench, 'quick', 5);
    await bench.settle();
    const blocked = bench.told[0]!;
    expect(blocked).toMatchObject({ kind: 'blocked', channel: 'quick', from: 'closed', to: 'open', trips: 1 });
    expect(blocked).toMatchObject({ size: 10, recorded: 4, succeeded: 0, threshold: 7_000, reason: 'success-rate' });
    expect(blocked.evidence.map(({ code, source }) => [code, source])).toEqual(Array(4).fill(['E1', 'shop']));
    await bench.pass(1_500, () => kinds(bench, 'quick').includes('recovered'));
    expect(bench.fuse.isBlocked('quick')).toBe(false);
    fail(bench, 'quick', 4);
    await bench.settle();
    await bench.pass(3_000, () => kinds(bench, 'quick').includes('held'));
    expect(kinds(bench, 'quick')).toEqual(['blocked', 'recovered', 'relapsed', 'recovered', 'held']);
    expect(new Set(bench.told.map(({ incident }) => incident))).toEqual(new Set([blocked.incident]));
    expect(bench.told.map(({ trips }) => trips)).toEqual([1, 1, 2, 2, 2]);
    const recovered = bench.told[1]!;
    expect(recovered.at - recovered.blockedAt).toBe(1_500);
    expect(bench.fuse.stateOf('quick')).toMatchObject({ state: 'closed', blocked: false, until: 0, reason: 'held' });
  });

  it('begins with an empty window after a block: what failed before is no longer held against the channel', async () => {
    const bench = await open();
    fail(bench, 'quick', 4);
    await bench.settle();
    await bench.pass(1_500, () => kinds(bench, 'quick').includes('recovered'));
    fail(bench, 'quick', 3);
    await bench.settle();
    expect(bench.fuse.isBlocked('quick')).toBe(false);
  });

  it('blocks and unblocks by hand, says who, and moves the end of a block that runs', async () => {
    const bench = await open();
    await bench.block('A', 60_000);
    await bench.settle();
    expect(bench.fuse.stateOf('A')).toMatchObject({ state: 'open', blocked: true, reason: 'manual', actor: 'test' });
    await bench.block('A', -1);
    await bench.settle();
    expect(bench.fuse.stateOf('A')).toMatchObject({ blocked: true, until: -1 });
    await bench.unblock('A');
    await bench.settle();
    expect(bench.fuse.isBlocked('A')).toBe(false);
    await bench.unblock('A');
    await bench.settle();
    expect(kinds(bench, 'A').slice(0, 3)).toEqual(['blocked', 'extended', 'recovered']);
    expect(kinds(bench, 'A').filter((kind) => kind === 'recovered')).toHaveLength(1);
  });

  it('2.04 counts every code of a failure, rate_limited too, unless the policy ignores it or the user broke off', async () => {
    const bench = await open();
    const { fuse } = bench;
    for (let i = 0; i < 10; i += 1) {
      fuse.publish({ channel: 'picky', success: false, code: 'CARD_EXPIRED' });
      fuse.publish({ channel: 'A', success: false, code: CLIENT_CANCELLED });
      fuse.publish({ channel: 'B', success: false, code: 'rate_limited' });
    }
    fail(bench, 'picky', 3);
    await bench.settle();
    expect(['picky', 'A', 'B'].map((channel) => fuse.isBlocked(channel))).toEqual([false, false, true]);
    fail(bench, 'picky', 1);
    await bench.settle();
    expect(fuse.isBlocked('picky')).toBe(true);
  });

  it('only tells in mode observe, and neither judges nor hides in mode off', async () => {
    const bench = await open();
    fail(bench, 'seen', 8);
    fail(bench, 'away', 8);
    await bench.block('away', 60_000);
    await bench.settle();
    expect([bench.fuse.isBlocked('seen'), bench.fuse.isBlocked('away')]).toEqual([false, false]);
    expect(bench.fuse.stateOf('seen')).toMatchObject({ state: 'closed', until: 0 });
    expect(bench.fuse.stateOf('away')).toMatchObject({ state: 'open', blocked: false });
    expect(kinds(bench, 'seen')).toEqual(['observed']);
  });

  it('shows as many of a group as its floor wants, the least bad first, and goes on telling the state', async () => {
    const bench = await open();
    fail(bench, 'pay', 4);
    await bench.settle();
    expect(bench.fuse.visible(['pay', 'pay2'])).toEqual(['pay2']);
    fail(bench, 'pay2', 4);
    await bench.settle();
    expect(bench.fuse.select(['pay2', 'pay'])).toMatchObject({ items: ['pay'], floored: ['pay'] });
    expect(bench.fuse.isBlocked('pay')).toBe(true);
    expect(bench.fuse.status().counters.floored).toBe(1);
    expect(bench.fuse.status().counters.transitions).toBeGreaterThanOrEqual(2);
  });

  it('takes anything without throwing, counts what is no outcome, and knows a name in all its spellings', async () => {
    const bench = await open();
    const { fuse } = bench;
    for (const bad of [null, {}, { channel: 'a{b', success: true }, { channel: 'A', success: 'no' }])
      fuse.publish(bad as never);
    for (let i = 0; i < 4; i += 1) fuse.publish({ channel: 'cafe\u0301', success: false });
    await bench.settle();
    expect(fuse.isBlocked('caf\u00e9')).toBe(true);
    expect(fuse.stateOf('cafe\u0301')).toMatchObject({ channel: 'cafe\u0301', state: 'open', blocked: true });
    expect(fuse.isBlocked('a{b')).toBe(false);
    expect(fuse.visible(['a{b', 'caf\u00e9'])).toEqual(['a{b']);
    expect(fuse.counts()).toMatchObject({ published: 4, sent: 4, buffered: 0, dropped: { invalid: 4 } });
    expect(fuse.status().counters.invalidNames).toBe(2);
  });

  it('publishes how a tracked call ended and hands its result or error on', async () => {
    const bench = await open();
    const success = (answer: { ok: boolean }) => answer.ok;
    for (let i = 0; i < 3; i += 1) await bench.fuse.track('A', async () => ({ ok: false }), { success });
    const lost = bench.fuse.track('A', () => Promise.reject(new Error('no route')), { success });
    await expect(lost).rejects.toThrow('no route');
    await bench.settle();
    expect(bench.fuse.isBlocked('A')).toBe(true);
  });

  it('goes on when a listener throws, and stops telling one that left', async () => {
    const bench = await open();
    const heard: string[] = [];
    bench.fuse.on('transition', () => {
      throw new Error('a listener of the service');
    });
    const leave = bench.fuse.on('transition', ({ channel }) => void heard.push(channel));
    fail(bench, 'A', 4);
    await bench.settle();
    leave();
    fail(bench, 'B', 4);
    await bench.settle();
    expect(heard.filter((channel) => !channel.startsWith('marker-'))).toEqual(['A']);
    expect([bench.fuse.isBlocked('A'), bench.fuse.isBlocked('B')]).toEqual([true, true]);
    expect(bench.fuse.status().counters.listenerErrors).toBeGreaterThanOrEqual(2);
  });

  it('counts what is published after close, and goes on answering', async () => {
    const bench = await open();
    fail(bench, 'A', 4);
    await bench.settle();
    await bench.fuse.close();
    fail(bench, 'A', 2);
    expect(bench.fuse.counts().dropped).toMatchObject({ closed: 2 });
    expect(bench.fuse.isBlocked('A')).toBe(true);
  });

  it('has every member of the type, and every count', async () => {
    const { fuse } = await open();
    const fake = createFakeFuseline();
    expect(Object.keys(fake)).toEqual(expect.arrayContaining(Object.keys(fuse)));
    expect(Object.keys(fake.status()).sort()).toEqual(Object.keys(fuse.status()).sort());
    expect(Object.keys(fake.status().counters).sort()).toEqual(Object.keys(fuse.status().counters).sort());
    expect(Object.keys(fake.counts()).sort()).toEqual(Object.keys(fuse.counts()).sort());
    expect(Object.keys(fake.stateOf('A')).sort()).toEqual(Object.keys(fuse.stateOf('A')).sort());
    expect(fake.status().counters).toEqual(
      Object.fromEntries(Object.keys(fuse.status().counters).map((name) => [name, 0])),
    );
  });
});
