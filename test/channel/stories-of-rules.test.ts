import { describe, expect, it } from 'vitest';
import { type Policy, windowTtlMs } from '../../src/domain/policy.js';
import { bench, C10, judged, policyOf, Twin } from './support.js';

const T10: Policy['window'] = { kind: 'time', spanMs: 10_000, slots: 10, minCalls: 5 };
const L10: Policy['window'] = { kind: 'log', spanMs: 10_000, minCalls: 5, maxEntries: 10_000 };
const N5: Policy['window'] = { kind: 'count', size: 5 };

it('failures in a row begin anew where the rules stopped asking for them in between', async () => {
  const window = { kind: 'time', spanMs: 60_000, slots: 6, minCalls: 50 } as const;
  const plain = policyOf({ window });
  const strict = policyOf({ window, maxConsecutiveFailures: 4 });
  const channel = new Twin(await bench());
  await channel.record('FFF', strict);
  await channel.record('SF', plain);
  expect(await channel.record('FFFF', strict)).toMatchObject({ blocked: false, recorded: 9 });
  expect(await channel.record('F', strict)).toMatchObject({ blocked: true });
  expect(channel.told.at(-1)).toMatchObject({ reason: 'consecutive-failures' });
});

describe('slow calls, in script and model alike', () => {
  it.each([N5, T10, L10])(
    '1.26 leaves a slow call in the total as any other: five slow of five are 100 %, four of five 80 %, in a window of kind $kind',
    async (window) => {
      const policy = policyOf({ window, rate: 0, slow: { overMs: 3_000, rate: 8_000 } });
      const all = new Twin(await bench());
      expect(await all.record('LLLLL', policy)).toMatchObject({ blocked: true, recorded: 5, succeeded: 5 });
      expect(all.told).toMatchObject([{ reason: 'slow-calls', size: 5, recorded: 5, slow: 5 }]);
      const most = new Twin(await bench());
      expect(await most.record('LLLLS', policy)).toMatchObject({ blocked: false, recorded: 5, succeeded: 5 });
      // 80 % is not more than 80 %, and is more than a hundredth of a percent less.
      const stricter = policyOf({ window, rate: 0, slow: { overMs: 3_000, rate: 7_999 } });
      const strict = new Twin(await bench());
      expect(await strict.record('SLLLL', stricter)).toMatchObject({ blocked: true });
      expect(strict.told).toMatchObject([{ reason: 'slow-calls', size: 5, slow: 4 }]);
    },
  );

  it('2.02 counts a slow success as a failure only where the policy says so, and what lasts just as long is not slow', async () => {
    const slow = policyOf({ slow: { overMs: 7_000 } });
    const tried = async (policy: Policy, durationMs: number) => {
      const channel = new Twin(await bench());
      channel.pass(60_000);
      const batch = judged(policy, Array(3).fill({ success: true, durationMs }))!;
      const { blocked } = await channel.send(batch, policy);
      return { blocked, told: channel.told, keys: await channel.client.exists(...channel.names) };
    };
    expect(await tried(slow, 9_000)).toMatchObject({ blocked: true, told: [{ reason: 'slow-calls', slow: 3 }] });
    expect(await tried(slow, 7_000.5)).toMatchObject({ blocked: true });
    expect(await tried(slow, 7_000)).toMatchObject({ blocked: false, keys: 0 });
    expect(await tried(C10, 9_000)).toMatchObject({ blocked: false, keys: 0 });
  });

  it('counts a call that failed and was slow once, as a failure', async () => {
    const channel = new Twin(await bench());
    channel.pass(60_000);
    const policy = policyOf({ slow: { overMs: 1_000, rate: 0 } });
    const both = { success: false, durationMs: 2_000 };
    expect(await channel.send(judged(policy, [both, both])!, policy)).toMatchObject({ blocked: false, recorded: 2 });
    expect((await channel.view()).window).toBe('00');
  });

  it('blocks by the share of slow calls strictly above its threshold, of slots never recorded too', async () => {
    const channel = new Twin(await bench());
    const policy = policyOf({ rate: 0, slow: { overMs: 1, rate: 3_000 } });
    expect(await channel.record('LLL', policy)).toMatchObject({ blocked: false, recorded: 3, succeeded: 3 });
    expect(await channel.record('L', policy)).toMatchObject({ blocked: true, recorded: 4 });
    expect(channel.told).toMatchObject([{ reason: 'slow-calls', size: 10, slow: 4 }]);
    expect(channel.told[0]?.threshold).toBeUndefined();
  });

  it('tells whether failures or slowness tripped it: what there was more of, and failures where they are as many', async () => {
    for (const [story, reason] of [
      ['FLL', 'slow-calls'],
      ['LLF', 'slow-calls'],
      ['FFL', 'success-rate'],
      ['LFF', 'success-rate'],
    ] as const) {
      const channel = new Twin(await bench());
      await channel.record(story, policyOf({ slow: { overMs: 1 } }));
      expect(channel.told, story).toMatchObject([
        { reason, recorded: 3, succeeded: 0, slow: story.split('L').length - 1 },
      ]);
    }
    const even = new Twin(await bench());
    await even.record('LF', policyOf({ rate: 90, slow: { overMs: 1 } }));
    expect(even.told).toMatchObject([{ reason: 'success-rate', slow: 1 }]);
  });

  it('raises a sequential test where slow calls are failures', async () => {
    const channel = new Twin(await bench());
    const window = { kind: 'sequential', healthy: 9_500, failing: 5_000, falseBlocks: 1e-6 } as const;
    const policy = policyOf({ window: { ...window, up: 2, down: 1, limit: 6 }, slow: { overMs: 1 } });
    expect(await channel.record('LF', policy)).toMatchObject({ blocked: false, recorded: 2, succeeded: 0 });
    expect(await channel.record('L', policy)).toMatchObject({ blocked: true });
    expect(channel.told).toMatchObject([{ reason: 'slow-calls', slow: 2 }]);
  });
});

describe('classes of outcome, in script and model alike', () => {
  it('2.04 follows what the policy says of a code: a failure by default, or a success, or nothing at all', async () => {
    const limited = { success: false, code: 'rate_limited' };
    const tried = async (more: Partial<Policy>, outcome: object = limited) => {
      const channel = new Twin(await bench());
      const policy = policyOf(more);
      const batch = judged(policy, Array(10).fill(outcome));
      return batch === undefined ? 'not judged' : (await channel.send(batch, policy)).blocked;
    };
    expect(await tried({})).toBe(true);
    expect(await tried({ ignore: ['rate_*'] })).toBe('not judged');
    expect(await tried({ codes: { success: ['rate_limited'], failure: [] } })).toBe(false);
    // The account is dead, though the answer was 200.
    const dead = { success: true, code: 'ACCOUNT_CLOSED' };
    expect(await tried({}, dead)).toBe(false);
    expect(await tried({ codes: { success: [], failure: ['ACCOUNT_*'] } }, dead)).toBe(true);
  });
});

describe('absolute numbers, in script and model alike', () => {
  it('minFailures keeps the rate from blocking by too few of them', async () => {
    const channel = new Twin(await bench());
    const policy = policyOf({ window: { ...T10, minCalls: 1 }, minFailures: 3 });
    expect(await channel.record('FF', policy)).toMatchObject({ blocked: false, recorded: 2, succeeded: 0 });
    expect(await channel.record('F', policy)).toMatchObject({ blocked: true });
    expect(channel.told).toMatchObject([{ reason: 'success-rate' }]);
  });

  it.each([T10, L10])(
    'maxFailures lets so many pass in a window of kind $kind, and blocks at the one beyond, whatever the rate',
    async (window) => {
      const channel = new Twin(await bench());
      const policy = policyOf({ window, rate: 0, maxFailures: 3 });
      expect(await channel.record(`FFF${'S'.repeat(100)}`, policy)).toMatchObject({ blocked: false, recorded: 103 });
      expect(await channel.record('F', policy)).toMatchObject({ blocked: true, recorded: 104, succeeded: 100 });
      expect(channel.told).toMatchObject([{ reason: 'too-many-failures', size: 104 }]);
      expect(channel.told[0]?.threshold).toBeUndefined();
      const slowly = new Twin(await bench());
      for (let i = 0; i < 9; i += 1) {
        expect(await slowly.record('F', policyOf({ window, rate: 0, maxFailures: 3 }))).toMatchObject({
          blocked: false,
        });
        slowly.pass(3_400);
      }
    },
  );

  it('maxFailures needs no least number of calls, and 0 blocks at the first failure', async () => {
    const channel = new Twin(await bench());
    expect(await channel.record('SF', policyOf({ window: T10, rate: 0, maxFailures: 0 }))).toMatchObject({
      blocked: true,
      recorded: 2,
    });
  });

  it.each([T10, L10, { kind: 'count', size: 1_000 } as const])(
    'maxConsecutiveFailures blocks a dead channel with thin traffic, however far its calls lie apart, in a window of kind $kind',
    async (window) => {
      const channel = new Twin(await bench());
      const policy = policyOf({ window, rate: 0, maxConsecutiveFailures: 3 });
      for (let i = 0; i < 3; i += 1) {
        expect(await channel.record('F', policy)).toMatchObject({ blocked: false });
        channel.pass(60_000);
      }
      expect(await channel.record('F', policy)).toMatchObject({
        blocked: true,
        recorded: window.kind === 'count' ? 4 : 1,
      });
      expect(channel.told).toMatchObject([{ reason: 'consecutive-failures' }]);
      // After the block it is counted anew.
      channel.pass(60_001);
      expect(await channel.record('FFF', policy)).toMatchObject({ blocked: false });
      expect(await channel.record('F', policy)).toMatchObject({ blocked: true });
    },
  );

  it('maxConsecutiveFailures begins anew at a success in between, wherever the batches are cut', async () => {
    for (const window of [T10, L10, N5]) {
      const channel = new Twin(await bench());
      const policy = policyOf({ window, rate: 0, maxConsecutiveFailures: 3 });
      for (const story of ['FFFSFF', 'FSFFF', 'S', 'FFF'])
        expect(await channel.record(story, policy), story).toMatchObject({ blocked: false });
      expect(await channel.record('F', policy)).toMatchObject({ blocked: true });
    }
  });

  it('a slow call goes on with a run of failures only where it counts as one', async () => {
    for (const [rate, blocked] of [
      [undefined, true],
      [9_000, false],
    ] as const) {
      const channel = new Twin(await bench());
      const slow = rate === undefined ? { overMs: 1 } : { overMs: 1, rate };
      const policy = policyOf({ window: T10, rate: 0, maxConsecutiveFailures: 2, slow });
      expect(await channel.record('FLF', policy)).toMatchObject({ blocked });
    }
  });
});

describe('failures from too few sources, in script and model alike', () => {
  const policy = policyOf({ minSources: 2 });

  it('make no block but one word that names the sick one; a second source makes the block', async () => {
    const channel = new Twin(await bench());
    expect(await channel.record('F'.repeat(30), policy, { source: 'till-7' })).toMatchObject({
      blocked: false,
      counted: 30,
      pushed: 1,
    });
    const [told] = channel.told;
    expect(told).toMatchObject({
      kind: 'suspected',
      reason: 'success-rate',
      from: 'closed',
      to: 'closed',
      trips: 0,
      block: 0,
    });
    expect(told?.incident).not.toBe('');
    expect(new Set(told?.evidence.map(({ source }) => source))).toEqual(new Set(['till-7']));
    channel.pass(60_000);
    expect(await channel.record('F', policy, { source: 'till-7' })).toMatchObject({ blocked: false, pushed: 0 });
    expect(await channel.record('F', policy, { source: 'till-8' })).toMatchObject({ blocked: true });
    expect(channel.kinds()).toEqual(['suspected', 'blocked']);
    expect(channel.told[1]).toMatchObject({ trips: 1, incident: String(channel.told[1]?.epoch) });
  });

  it('take what names no source for one source more', async () => {
    const channel = new Twin(await bench());
    expect(await channel.record('FFF', policy)).toMatchObject({ blocked: false });
    expect(await channel.record('F', policy, { source: 'till-8' })).toMatchObject({ blocked: true });
  });

  it('are told again when that long ago nobody would remember, and not to people in mode observe', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFF', policy, { source: 'a' });
    channel.pass(windowTtlMs(policy) - 1);
    await channel.record('F', policy, { source: 'a' });
    expect(channel.kinds()).toEqual(['suspected']);
    channel.pass(1);
    await channel.record('F', policy, { source: 'a' });
    expect(channel.kinds()).toEqual(['suspected', 'suspected']);
    const shadow = new Twin(await bench());
    const observe = policyOf({ mode: 'observe', minSources: 2 });
    await shadow.record('FFFF', observe, { source: 'a' });
    expect(shadow.kinds()).toEqual([]);
    await shadow.record('F', observe, { source: 'b' });
    expect(shadow.kinds()).toEqual(['observed']);
  });

  it.each(['time', 'log'] as const)(
    'are those of the failures since the window opened: after a silence longer than the span of a window of kind %s it opens anew',
    async (kind) => {
      const channel = new Twin(await bench());
      const window =
        kind === 'time'
          ? { kind, spanMs: 10_000, slots: 10, minCalls: 3 }
          : { kind, spanMs: 10_000, minCalls: 3, maxEntries: 100 };
      const rules = policyOf({ window, minSources: 2 });
      await channel.record('FF', rules, { source: 'till-7' });
      channel.pass(60_000);
      expect(await channel.record('FFFF', rules, { source: 'till-8' })).toMatchObject({ blocked: false });
      expect(new Set(channel.told.at(-1)?.evidence.map(({ source }) => source))).toEqual(new Set(['till-8']));
    },
  );
});
