import { describe, expect, it, onTestFinished } from 'vitest';
import type { ChannelRead, StoredState } from '../../src/channel/snapshot.js';
import type { Transition } from '../../src/domain/transition.js';
import { RedisClock } from '../../src/reader/clock.js';
import { Views } from '../../src/reader/views.js';
import { makeTransition } from './support.js';

const NOW = 1_760_000_000_000;
const HOUR = 3_600_000;

function fresh() {
  const clock = new RedisClock();
  clock.set({ redisMs: NOW, localMs: performance.now(), roundTripMs: 1 });
  const told: Transition[] = [];
  const views = new Views(clock, (transition) => void told.push(transition));
  onTestFinished(() => views.close());
  return { views, told, clock };
}

const stored = (fields: Partial<StoredState>): StoredState => ({
  ...{
    state: 'open',
    epoch: NOW,
    since: NOW,
    until: NOW + HOUR,
    keyUntil: NOW + HOUR,
    hold: 0,
    incident: '1',
    trips: 1,
  },
  ...{ block: NOW, blockedAt: NOW, step: 0, level: '', reason: 'success-rate', actor: undefined, note: undefined },
  ...fields,
});
const open: ChannelRead = { channel: 'a', state: stored({}), blockKey: { value: 'open', endsAt: NOW + HOUR } };
const blocked = makeTransition({ channel: 'a', kind: 'blocked', epoch: NOW, until: NOW + HOUR });

describe('what a reader believes', () => {
  it('is not undone by a read that began before the feed told better, though it is answered later', () => {
    const { views } = fresh();
    const begunAt = performance.now();
    views.take(blocked);
    views.settle({ channel: 'a' }, begunAt, 'snapshot');
    expect(views.get('a')!.blocked).toBe(true);
    views.take(makeTransition({ channel: 'a', kind: 'recovered', epoch: NOW + 1 }));
    views.settle(open, begunAt, 'snapshot');
    expect(views.get('a')!.blocked).toBe(false);
  });

  it('follows a Redis that lost writes, but tells nothing a second time', () => {
    const { views, told } = fresh();
    views.begin(NOW);
    views.take(blocked);
    views.take(makeTransition({ channel: 'a', kind: 'recovered', epoch: NOW + 1 }));
    views.settle(open, performance.now() + 1, 'snapshot');
    expect(views.get('a')).toMatchObject({ blocked: true, epoch: NOW + 1 });
    expect(views.take(blocked)).toBe(false);
    expect(told.map(({ kind }) => kind)).toEqual(['blocked', 'recovered']);
  });

  it('is not changed by an observed verdict, whose epochs are the shadow lane’s', () => {
    const { views } = fresh();
    views.take(blocked);
    const observed = makeTransition({ channel: 'a', kind: 'observed', epoch: NOW + 5 });
    expect(views.take(observed)).toBe(true);
    expect(views.take(observed)).toBe(false);
    expect(views.get('a')).toMatchObject({ blocked: true, epoch: NOW });
  });

  it('a check right after the feed leaves a newer epoch to the feed, which knows more', () => {
    const { views, told } = fresh();
    views.begin(NOW);
    views.take(blocked);
    const later: ChannelRead = { channel: 'a', state: stored({ state: 'closed', epoch: NOW + 1, since: NOW + 1 }) };
    views.settle(later, performance.now() + 1, 'check');
    expect(told).toHaveLength(1);
    views.settle(later, performance.now() + 1, 'snapshot');
    expect(told.map(({ kind }) => kind)).toEqual(['blocked', 'recovered']);
  });

  it('keeps looking at what it holds for blocked until Redis says closed, also when no agenda names it', () => {
    const { views } = fresh();
    views.take(blocked);
    expect([...views.unsettled()]).toEqual(['a']);
    views.take(makeTransition({ channel: 'a', kind: 'recovered', epoch: NOW + 1 }));
    expect([...views.unsettled()]).toEqual([]);
  });

  it('forgets the oldest epochs past 20,000 channels, but nothing that is blocked', () => {
    const { views } = fresh();
    views.take(blocked);
    for (let n = 0; n < 20_001; n++) views.take(makeTransition({ channel: `c${n}`, kind: 'recovered', epoch: n + 1 }));
    expect(views.size).toBe(20_000);
    expect(views.get('a')!.blocked).toBe(true);
    expect(views.get('c0')).toBeUndefined();
    expect(views.get('c20000')).toBeDefined();
  });
});

describe('Redis time', () => {
  it('prefers a quick answer to a later slow one, which says little', () => {
    const { clock } = fresh();
    clock.set({ redisMs: NOW + HOUR, localMs: performance.now(), roundTripMs: 500 });
    expect(clock.now()).toBeLessThan(NOW + 10_000);
    clock.set({ redisMs: NOW + HOUR, localMs: performance.now(), roundTripMs: 2 });
    expect(clock.now()).toBeGreaterThanOrEqual(NOW + HOUR);
  });
});
