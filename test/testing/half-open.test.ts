import { describe, expect, it } from 'vitest';
import { didNotThrow } from '../../src/publisher/track.js';
import { createFakeFuseline } from '../../src/testing/index.js';

const success = didNotThrow;
const users = Array.from({ length: 1_000 }, (_, i) => `user-${i}`);
const rulesOf = (halfOpen: object, more: object = {}) => ({
  mode: 'on',
  defaults: { block: { for: '30s', growth: 2 }, hold: '10m', halfOpen },
  ...more,
});

/** A fake whose channel `A` has just become half-open. */
function halfOpen(plan: object, more?: object) {
  const fuse = createFakeFuseline({ rules: rulesOf(plan, more) });
  for (let i = 0; i < 4; i += 1) fuse.publish({ channel: 'A', success: false });
  fuse.advance(30_000);
  return fuse;
}
const states = (fuse: ReturnType<typeof createFakeFuseline>) =>
  fuse.transitions.map(({ kind, from, to, reason }) => `${kind} ${from} ${to} ${reason}`);

describe('half-open on the fake', () => {
  it('comes after the block, lets the share of users through, in lists and in calls, and closes after enough good ones', async () => {
    const fuse = halfOpen({ percent: 10, close: 3 });
    expect(fuse.stateOf('A')).toMatchObject({ state: 'half-open', blocked: true, trial: { step: 0, share: 1_000 } });
    expect(fuse.levelOf('A')).toBe('blocked');
    const shown = users.filter((key) => fuse.visible(['A', 'B'], { key }).includes('A'));
    expect(shown.length).toBeGreaterThan(60);
    expect(shown.length).toBeLessThan(140);
    for (const key of users.slice(0, 100))
      expect((await fuse.admit('A', { key })).admitted, key).toBe(shown.includes(key));
    expect(fuse.visible(['A', 'B'])).toEqual(['B']);
    for (const key of shown.slice(0, 3)) expect(await fuse.guard('A', () => key, { success, key })).toBe(key);
    expect(fuse.stateOf('A')).toMatchObject({ state: 'closed', blocked: false, reason: 'half-open-success' });
    expect(fuse.stateOf('A').trial).toBeUndefined();
  });

  it('blocks again at a bad one, for longer, and draws other users at the next attempt', async () => {
    const fuse = halfOpen({ percent: 10 });
    const shown = () => users.filter((key) => fuse.visible(['A'], { key }).length === 1);
    const first = shown();
    const fails = () => Promise.reject(new Error('still down'));
    await fuse.guard('A', fails, { success, key: first[0]! }).catch(() => {});
    const { since, until, trips, state, reason } = fuse.stateOf('A');
    expect({ state, trips, reason, length: until - since }).toEqual({
      ...{ state: 'open', trips: 2, reason: 'half-open-failure', length: 60_000 },
    });
    expect(await fuse.admit('A', { key: first[1]! })).toMatchObject({ admitted: false, why: 'blocked' });
    fuse.advance(60_000);
    const again = shown();
    expect(again.length).toBeGreaterThan(60);
    expect(again.filter((key) => first.includes(key)).length).toBeLessThan(40);
  });

  it('draws calls without a key by lot, at about the same share', async () => {
    const fuse = halfOpen({ percent: 50 });
    const admissions = await Promise.all(Array.from({ length: 1_000 }, () => fuse.admit('A')));
    const admitted = admissions.filter((one) => one.admitted).length;
    expect(admitted).toBeGreaterThan(400);
    expect(admitted).toBeLessThan(600);
  });

  it('lends permits for calls, so many at once; they come back with the call, and at their deadline without it', async () => {
    const fuse = halfOpen({ permits: 2, wait: '10m' });
    const [one, two, three] = [await fuse.admit('A'), await fuse.admit('A', { timeout: 5_000 }), await fuse.admit('A')];
    expect([one, two, three].map(({ admitted, why }) => [admitted, why])).toEqual([
      [true, 'half-open'],
      [true, 'half-open'],
      [false, 'half-open'],
    ]);
    one.release();
    one.release();
    expect(await fuse.guard('A', () => 1, { success })).toBe(1);
    fuse.advance(5_990);
    const lent = await fuse.admit('A');
    expect([lent.admitted, (await fuse.admit('A')).admitted]).toEqual([true, false]);
    fuse.advance(10);
    expect((await fuse.admit('A')).admitted).toBe(true);
    expect(fuse.visible(['A', 'B'], { key: 'ann' })).toEqual(['B']);
    expect(fuse.status().permits).toEqual({ lent: 5, refused: 2, unanswered: 0 });
  });

  it('goes up its ramp: another share at each step, the first users still among them, and the state since the beginning', async () => {
    const fuse = halfOpen({ percent: 10, close: 1, ramp: [50, 100] });
    const { since } = fuse.stateOf('A');
    const first = users.filter((key) => fuse.visible(['A'], { key }).length === 1);
    await fuse.guard('A', () => 1, { success, key: first[0]! });
    expect(fuse.stateOf('A')).toMatchObject({ state: 'half-open', since, trial: { step: 1, share: 5_000 } });
    const second = users.filter((key) => fuse.visible(['A'], { key }).length === 1);
    expect(first.every((key) => second.includes(key))).toBe(true);
    expect(second.length).toBeGreaterThan(400);
    await fuse.guard('A', () => 1, { success, key: second[0]! });
    expect(fuse.isBlocked('A')).toBe(false);
    expect(states(fuse)).toEqual([
      'blocked closed open success-rate',
      'half-open open half-open expired',
      'half-open half-open half-open ramp',
      'recovered half-open closed half-open-success',
    ]);
  });

  it('ends at its deadline, one block length later unless told otherwise: closed, or blocked again', () => {
    const closes = halfOpen({ permits: 1 });
    closes.advance(30_000 - 1);
    expect(closes.stateOf('A').state).toBe('half-open');
    closes.advance(1);
    expect(closes.stateOf('A')).toMatchObject({ state: 'closed', reason: 'half-open-timeout' });
    const opens = halfOpen({ permits: 1, wait: '5s', atDeadline: 'open' });
    opens.advance(5_000);
    expect(opens.stateOf('A')).toMatchObject({ state: 'open', trips: 2, reason: 'half-open-timeout' });
  });

  it('is let through by the floor like any other, when nothing better is left', async () => {
    const more = { channels: { A: { group: 'pay' }, B: { group: 'pay' } }, groups: { pay: { minVisible: 1 } } };
    const fuse = halfOpen({ permits: 1, wait: '10m' }, more);
    expect(await fuse.admit('A')).toMatchObject({ admitted: true, why: 'half-open' });
    expect(await fuse.admit('A')).toMatchObject({ admitted: false, why: 'half-open' });
    for (let i = 0; i < 4; i += 1) fuse.publish({ channel: 'B', success: false });
    expect(fuse.visible(['A', 'B'])).toEqual(['A']);
    expect(await fuse.admit('A')).toMatchObject({ admitted: true, why: 'floor' });
    expect(await fuse.admit('B')).toMatchObject({ admitted: false, why: 'blocked' });
  });
});

describe('levels on the fake', () => {
  it('are told from healthy over degraded to blocked, and back', () => {
    const levels = { cached: 60, fallback: 40, blocked: 20 };
    const fuse = createFakeFuseline({ rules: { mode: 'on', defaults: { block: '30s', levels } } });
    const heard: string[] = [];
    for (let i = 0; i < 9; i += 1) {
      fuse.publish({ channel: 'A', success: false });
      heard.push(fuse.levelOf('A'));
    }
    const steps = ['normal', 'normal', 'normal', 'normal', 'cached', 'cached', 'fallback', 'fallback', 'blocked'];
    expect(heard).toEqual(steps);
    expect(fuse.stateOf('A')).toMatchObject({ state: 'open', blocked: true });
    fuse.advance(30_000);
    expect(fuse.levelOf('A')).toBe('normal');
    expect([fuse.levelOf('B'), fuse.levelOf('a{b')]).toEqual(['normal', 'normal']);
  });
});
