import { describe, expect, it, onTestFinished } from 'vitest';
import type { ChannelRead, StoredState } from '../../src/channel/snapshot.js';
import { DEFAULT_POLICY, type HalfOpen, type Policy } from '../../src/domain/policy.js';
import type { Transition } from '../../src/domain/transition.js';
import { RedisClock } from '../../src/reader/clock.js';
import { levelOfView, trialOf } from '../../src/reader/view.js';
import { Views } from '../../src/reader/views.js';
import { until } from '../support/wait.js';
import { bench, makeTransition, rulesOf } from './support.js';

const NOW = 1_760_000_000_000;
const MINUTE = 60_000;
const PLAN: HalfOpen = { steps: [1_000, 5_000], permits: 1, close: 3, waitMs: MINUTE, reopens: false };
const planned = (halfOpen: HalfOpen): Policy => ({ ...DEFAULT_POLICY, mode: 'on', halfOpen });
const policy = planned(PLAN);

function fresh() {
  const clock = new RedisClock();
  clock.set({ redisMs: NOW, localMs: performance.now(), roundTripMs: 1 });
  const told: Transition[] = [];
  const views = new Views(clock, (transition) => void told.push(transition));
  onTestFinished(() => views.close());
  return { views, told, clock };
}

const blocked = makeTransition({
  channel: 'a',
  kind: 'blocked',
  epoch: NOW,
  until: NOW + MINUTE,
  keyUntil: NOW + 2 * MINUTE,
});
const trying = makeTransition({
  ...{ channel: 'a', kind: 'half-open', epoch: NOW + MINUTE, from: 'open', to: 'half-open', until: NOW + 2 * MINUTE },
  ...{ block: NOW, step: 0, share: 1_000, reason: 'expired' },
});
const ramp = makeTransition({
  ...{ channel: 'a', kind: 'half-open', epoch: NOW + MINUTE + 500, from: 'half-open', to: 'half-open' },
  ...{ until: NOW + 2 * MINUTE, block: NOW, step: 1, share: 5_000, reason: 'ramp' },
});
const stored = (fields: Partial<StoredState> = {}): ChannelRead => ({
  channel: 'a',
  state: {
    ...{
      state: 'half-open',
      epoch: NOW + MINUTE,
      since: NOW + MINUTE,
      until: NOW + 2 * MINUTE,
      keyUntil: NOW + 2 * MINUTE,
    },
    ...{ hold: 0, incident: '1', trips: 1, block: NOW, blockedAt: NOW, step: 0, level: '', reason: 'expired' },
    ...{ actor: undefined, note: undefined },
    ...fields,
  },
  blockKey: { value: 'half-open', endsAt: NOW + 2 * MINUTE },
});
const later = () => performance.now() + 1;

describe('what a reader believes of a channel on its way back', () => {
  it('keeps a block up until its key goes, not only until it ends, so that a Redis that is away lets nobody in early', () => {
    const { views, clock } = fresh();
    views.take(blocked);
    expect(views.get('a')).toMatchObject({ until: NOW + MINUTE, endsAt: NOW + 2 * MINUTE });
    clock.set({ redisMs: NOW + MINUTE + 1, localMs: performance.now(), roundTripMs: 1 });
    views.endDue();
    expect(views.get('a')!.blocked).toBe(true);
    clock.set({ redisMs: NOW + 2 * MINUTE, localMs: performance.now(), roundTripMs: 1 });
    views.endDue();
    expect(views.get('a')!.blocked).toBe(false);
  });

  it('is not open to anybody for a transition that came after the block, but before the key, was to end', () => {
    const { views, clock } = fresh();
    clock.set({ redisMs: NOW + MINUTE + 1, localMs: performance.now(), roundTripMs: 1 });
    views.take(blocked);
    expect(views.get('a')!.blocked).toBe(true);
  });

  it('knows half-open from the feed, and another step of it, which is no change of state', () => {
    const { views } = fresh();
    views.take(blocked);
    views.take(trying);
    const half = {
      state: 'half-open',
      blocked: true,
      since: NOW + MINUTE,
      endsAt: NOW + 2 * MINUTE,
      reason: 'expired',
    };
    expect(views.get('a')).toMatchObject(half);
    expect(trialOf(views.get('a')!, undefined)).toEqual({ step: 0, block: NOW, share: 1_000 });
    views.take({ ...ramp, at: ramp.epoch });
    expect(views.get('a')).toMatchObject(half);
    expect(trialOf(views.get('a')!, undefined)).toEqual({ step: 1, block: NOW, share: 5_000 });
  });

  it('knows half-open from reads by the step and the rules; without rules nobody knows whom it lets through', () => {
    const { views } = fresh();
    views.settle(stored({ step: 1 }), performance.now(), 'snapshot');
    expect(trialOf(views.get('a')!, policy)).toEqual({ step: 1, block: NOW, share: 5_000 });
    expect(trialOf(views.get('a')!, undefined)).toBeUndefined();
    const permits = planned({ ...PLAN, steps: [0], permits: 4 });
    expect(trialOf(views.get('a')!, permits)).toEqual({ step: 1, block: NOW, permits: 4 });
  });

  it('keeps what the feed said over a read of the same step, and takes rules that have changed since', () => {
    const { views } = fresh();
    views.take(blocked);
    views.take(trying);
    views.settle(stored(), later(), 'snapshot');
    expect(trialOf(views.get('a')!, undefined)).toEqual({ step: 0, block: NOW, share: 1_000 });
    expect(trialOf(views.get('a')!, planned({ ...PLAN, steps: [100] }))).toEqual({ step: 0, block: NOW, share: 100 });
    views.settle(stored({ step: 1, epoch: ramp.epoch }), later(), 'snapshot');
    expect(trialOf(views.get('a')!, undefined)).toBeUndefined();
  });

  it('lets nobody try a key of that value which no script wrote, nor a channel that is open', () => {
    const { views } = fresh();
    views.settle(
      { channel: 'a', blockKey: { value: 'half-open', endsAt: NOW + MINUTE } },
      performance.now(),
      'snapshot',
    );
    expect(views.get('a')).toMatchObject({ state: 'half-open', blocked: true });
    expect(trialOf(views.get('a')!, policy)).toBeUndefined();
    views.take(blocked);
    expect(trialOf(views.get('a')!, policy)).toBeUndefined();
  });

  it('tells half-open, a step, a relapse and an end that the feed did not bring, from the states that show them', () => {
    const { views, told } = fresh();
    views.begin(NOW);
    views.take(blocked);
    views.settle(stored(), later(), 'snapshot');
    views.settle(stored({ epoch: ramp.epoch, step: 1 }), later(), 'snapshot');
    views.settle(stored({ epoch: ramp.epoch, step: 1 }), later(), 'snapshot');
    const again = { epoch: NOW + 90_000, since: NOW + 90_000, block: NOW + 90_000, blockedAt: NOW + 90_000 };
    const reason = 'half-open-failure';
    views.settle({ ...stored({ ...again, state: 'open', trips: 2, reason }) }, later(), 'snapshot');
    expect(told.map(({ kind, from, to, reason: why, step }) => [kind, from, to, why, step])).toEqual([
      ['blocked', 'closed', 'open', 'success-rate', undefined],
      ['half-open', 'open', 'half-open', 'expired', 0],
      ['half-open', 'half-open', 'half-open', 'ramp', 1],
      ['relapsed', 'half-open', 'open', reason, undefined],
    ]);
    expect(views.take(trying)).toBe(false);
    views.settle(stored({ epoch: NOW + 100_000, since: NOW + 100_000 }), later(), 'snapshot');
    const success = {
      state: 'closed',
      epoch: NOW + 110_000,
      since: NOW + 110_000,
      reason: 'half-open-success',
    } as const;
    views.settle({ channel: 'a', state: stored(success).state! }, later(), 'snapshot');
    expect(told.at(-1)).toMatchObject({
      kind: 'recovered',
      from: 'half-open',
      to: 'closed',
      reason: 'half-open-success',
    });
  });

  it('tells a level that the feed did not bring, and moves nothing for one that it did', () => {
    const { views, told } = fresh();
    views.begin(NOW - 1);
    const before = { state: 'closed', epoch: NOW, since: NOW, until: 0, keyUntil: 0, reason: 'held' } as const;
    views.settle({ channel: 'a', state: stored(before).state! }, later(), 'snapshot');
    const level = {
      kind: 'level',
      from: 'closed',
      to: 'closed',
      at: NOW + 5,
      reason: 'level',
      level: 'cached',
      before: '',
    };
    views.take(makeTransition({ channel: 'a', epoch: NOW + 5, incident: '', ...level }));
    expect(views.get('a')).toMatchObject({
      state: 'closed',
      since: NOW,
      incident: '1',
      reason: 'held',
      level: 'cached',
    });
    expect([...views.unsettled()]).toEqual(['a']);
    const worse = stored({ ...before, epoch: NOW + 9, level: 'fallback' }).state!;
    views.settle({ channel: 'a', state: worse }, later(), 'snapshot');
    expect(told.at(-1)).toMatchObject({
      kind: 'level',
      from: 'closed',
      to: 'closed',
      level: 'fallback',
      before: 'cached',
    });
    expect(['on', 'observe', 'off'].map((mode) => levelOfView(views.get('a'), false, mode as Policy['mode']))).toEqual([
      ...['fallback', 'normal', 'normal'],
    ]);
    views.take({ ...blocked, epoch: NOW + 20 });
    expect(levelOfView(views.get('a'), true, 'on')).toBe('blocked');
    views.take(makeTransition({ channel: 'a', kind: 'recovered', epoch: NOW + 30 }));
    expect(levelOfView(views.get('a'), false, 'on')).toBe('normal');
  });

  it('a decision by hand that is no change of state moves nothing, as one that keeps the channel in use', () => {
    const { views } = fresh();
    views.take(makeTransition({ channel: 'a', kind: 'recovered', epoch: NOW }));
    const forced = { kind: 'forced', from: 'closed', to: 'closed', at: NOW + 5, until: NOW + MINUTE, reason: 'manual' };
    expect(views.take(makeTransition({ channel: 'a', epoch: NOW + 5, ...forced }))).toBe(true);
    expect(views.get('a')).toMatchObject({ state: 'closed', blocked: false, since: NOW, until: 0, epoch: NOW + 5 });
  });
});

describe('a reader and a half-open channel', () => {
  const users = Array.from({ length: 5_000 }, (_, i) => `user-${i}`);
  const rules = rulesOf({ policies: { A: policy } });

  async function halfOpen() {
    const one = await bench();
    const now = await one.now();
    const first = await one.reader({ rules });
    const fields = { ...{ state: 'half-open', epoch: now, since: now, until: now + MINUTE, block: now - MINUTE } };
    await one.write('A', { ...fields, reason: 'expired', step: 0, good: 0 });
    const told = {
      ...{ from: 'open', to: 'half-open', until: now + MINUTE, block: now - MINUTE },
      step: 0,
      share: 1_000,
    };
    await one.tell({ channel: 'A', kind: 'half-open', epoch: now, ...told });
    await until(() => first.stateOf('A').trial, { what: 'half-open by the feed' });
    return { ...one, now, first, told };
  }
  const shownTo = (reader: { visible(items: string[], how: object): string[] }) =>
    users.filter((key) => reader.visible(['A', 'B'], { key }).includes('A'));

  it('1.29 1.30 shows it to its share of users, the same in a process that learned of it otherwise; goes on telling the state', async () => {
    const { reader, first, keys, client, now } = await halfOpen();
    const second = await reader({ rules });
    const chosen = shownTo(first);
    expect(chosen.length).toBeGreaterThan(350);
    expect(chosen.length).toBeLessThan(650);
    expect(shownTo(second)).toEqual(chosen);
    for (const one of [first, second]) {
      expect(one.isBlocked('A')).toBe(true);
      expect(one.visible(['A', 'B'])).toEqual(['B']);
      expect(one.select(['A', 'B'], { key: chosen[0] })).toMatchObject({ items: ['A', 'B'], floored: [] });
      const trial = { step: 0, block: now - MINUTE, share: 1_000 };
      expect(one.stateOf('A')).toMatchObject({ state: 'half-open', blocked: true, until: now + MINUTE, trial });
      expect(one.levelOf('A')).toBe('blocked');
    }
    // The contract with programs that know nothing else: the key is there, so they stay out.
    expect(await client.exists(keys.blocked('A'))).toBe(1);
  });

  it('shows it to more at the next step, and to all of the first ones still', async () => {
    const { client, keys, tell, first, now, told } = await halfOpen();
    const chosen = shownTo(first);
    await client.hset(keys.state('A'), { epoch: now + 1, step: 1 });
    const next = { ...told, from: 'half-open', at: now + 1, step: 1, share: 5_000, reason: 'ramp' };
    await tell({ channel: 'A', kind: 'half-open', epoch: now + 1, ...next });
    await until(() => first.stateOf('A').trial?.step === 1, { what: 'the next step' });
    const more = shownTo(first);
    expect(more.length).toBeGreaterThan(2_300);
    expect(new Set(more).size).toBe(new Set([...more, ...chosen]).size);
    expect(first.stateOf('A').since).toBe(now);
  });

  it('hides it from lists where it lends permits, unless the floor of its group shows it', async () => {
    const one = await bench();
    const now = await one.now();
    const lending = { group: 'pay', halfOpen: { ...PLAN, steps: [0] } };
    const reader = await one.reader({
      rules: rulesOf({ policies: { A: lending, B: { group: 'pay' } }, minVisible: { pay: 1 } }),
    });
    const fields = { ...{ state: 'half-open', epoch: now, since: now, until: now + MINUTE }, step: 0, good: 0 };
    await one.write('A', fields);
    await until(() => reader.isBlocked('A'), { what: 'half-open by a snapshot' });
    expect(reader.stateOf('A').trial).toEqual({ step: 0, block: now, permits: 1 });
    expect(reader.visible(['A', 'B'], { key: 'ann' })).toEqual(['B']);
    expect(reader.select(['A'], { key: 'ann' })).toMatchObject({ items: ['A'], floored: ['A'] });
  });

  it('counts it as one of those that a group shows to those users who see it', async () => {
    const one = await bench();
    const now = await one.now();
    const policies = { A: { ...policy, group: 'pay' }, B: { group: 'pay' } };
    const reader = await one.reader({ rules: rulesOf({ policies, minVisible: { pay: 1 } }) });
    await one.write('A', { state: 'half-open', epoch: now, since: now, until: now + MINUTE, step: 0, good: 0 });
    await one.write('B', { epoch: now, until: now + MINUTE });
    await until(() => reader.isBlocked('A') && reader.isBlocked('B'), { what: 'both' });
    const chosen = users.find((key) => reader.select(['A', 'B'], { key }).floored.length === 0)!;
    expect(reader.select(['A', 'B'], { key: chosen }).items).toEqual(['A']);
    expect(reader.isFloored('A', undefined, chosen)).toBe(false);
    expect(reader.select(['A', 'B'])).toMatchObject({ items: ['A'], floored: ['A'] });
    expect(reader.isFloored('A')).toBe(true);
  });
});
