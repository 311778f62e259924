import { describe, expect, it } from 'vitest';
import type { Window } from '../../src/domain/policy.js';
import { callsToBlock, failuresToBlock, sequentialTest } from '../../src/domain/window/sequential-test.js';
import { bench, channelOn, policyOf, Twin } from './support.js';

const T10: Window = { kind: 'time', spanMs: 10_000, slots: 10, minCalls: 5 };
const log = (input: Partial<Extract<Window, { kind: 'log' }>> = {}): Window => {
  return { kind: 'log', spanMs: 10_000, minCalls: 5, maxEntries: 10_000, ...input };
};
/** Ten seconds, judged from five calls on, 60 %. */
const L10 = policyOf({ window: log(), rate: 60 });
const TEST = sequentialTest(0.95, 0.5, 1e-6);
const SEQUENTIAL: Window = { kind: 'sequential', healthy: 9_500, failing: 5_000, falseBlocks: 1e-6, ...TEST };
const Q = policyOf({ window: SEQUENTIAL });

describe('a call log, in script and model alike', () => {
  it('keeps two calls of the same millisecond as two, whether they came in one entry or in two', async () => {
    const channel = new Twin(await bench());
    await channel.record('FF', L10);
    await channel.send({ ...batchOfOne('000'), entries: [['9000000', 0, 3]] }, policyOf({ window: log(), rate: 0 }));
    const members = await channel.client.zrange(channel.names[7], 0, '-1', 'WITHSCORES');
    expect(members.filter((_, i) => i % 2 === 1)).toEqual(Array.from({ length: 5 }, () => String(channel.now)));
    expect(new Set(members.filter((_, i) => i % 2 === 0)).size).toBe(5);
  });

  it('is judged from its least calls on, only by what was called, and by failures alone', async () => {
    const channel = new Twin(await bench());
    expect(await channel.record('FFFF', L10)).toMatchObject({ blocked: false, recorded: 4 });
    expect(await channel.record('SSSSSS', L10)).toMatchObject({ blocked: false, recorded: 10, succeeded: 6 });
    expect(await channel.record('F', L10)).toMatchObject({ blocked: true, recorded: 11, succeeded: 6 });
    expect(channel.told).toMatchObject([{ kind: 'blocked', reason: 'success-rate', size: 11, recorded: 11 }]);
    expect(await channel.client.exists(channel.names[6], channel.names[7])).toBe(0);
  });

  it('is exact to the millisecond at the edge of its span', async () => {
    for (const [passed, seen] of [
      [9_999, { blocked: true, recorded: 5 }],
      [10_000, { blocked: false, recorded: 1 }],
    ] as const) {
      const channel = new Twin(await bench());
      await channel.record('FFFF', L10);
      channel.pass(passed);
      expect(await channel.record('F', L10), `${passed} ms later`).toMatchObject(seen);
    }
  });

  it('forgets by the newest end recorded, and nothing merely because time goes by', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFFF', L10);
    channel.pass(60_000);
    expect((await channel.view()).stored).toMatchObject({ calls: { length: 4 } });
    // Read a minute late, it still happened right after the four.
    expect(await channel.record('F', L10, { ago: 55_000 })).toMatchObject({ blocked: true, recorded: 5 });
  });

  it('puts a backlog that is read at one go into the milliseconds in which its calls ended', async () => {
    const channel = new Twin(await bench());
    channel.pass(120_000);
    for (let i = 0; i < 10; i += 1) {
      const seen = await channel.record('F', L10, { arrivalMs: channel.now, ago: 115_000 - i * 11_000 });
      expect(seen).toMatchObject({ blocked: false, recorded: 1 });
    }
    const mixed = { ...batchOfOne('00000'), times: [9_000, 0, 1_000, 0, 5_000, 0, 3_000, 0, 7_000, 0] };
    expect(await channel.send({ ...mixed, entries: [['9000001', channel.now, 5]] }, L10)).toMatchObject({
      blocked: true,
      recorded: 5,
    });
  });

  it('drops as late what ended before its span, and counts it', async () => {
    const channel = new Twin(await bench());
    channel.pass(60_000);
    await channel.record('SSSSS', L10);
    expect(await channel.record('FFFFF', L10, { ago: 10_000 })).toMatchObject({ late: 5, counted: 0, recorded: 5 });
    expect(await channel.record('F', L10, { ago: 9_999 })).toMatchObject({ late: 0, counted: 1, recorded: 6 });
  });

  it('keeps its most calls: the oldest go, whichever they are, and a counter says how many', async () => {
    const channel = new Twin(await bench());
    const five = policyOf({ window: log({ maxEntries: 5 }), rate: 60 });
    expect(await channel.record('FF', five)).toMatchObject({ crowded: 0, recorded: 2 });
    expect(await channel.record('SSSSS', five)).toMatchObject({ crowded: 2, recorded: 5, succeeded: 5 });
    expect(await channel.record('FF', five)).toMatchObject({ crowded: 2, recorded: 5, blocked: false });
    expect(await channel.record('F', five)).toMatchObject({ crowded: 1, blocked: true });
    expect(await channel.client.zcard(channel.names[7])).toBe(0);
  });

  it('lets go first what ended first, in whatever order a batch tells it', async () => {
    const channel = new Twin(await bench());
    channel.pass(60_000);
    const three = policyOf({ window: log({ maxEntries: 3, minCalls: 1 }), rate: 0 });
    const times = [1_000, 0, 5_000, 0, 0, 0, 2_000, 0];
    const batch = { ...batchOfOne('1011'), times, entries: [['9000003', channel.now, 4]] as const };
    expect(await channel.send(batch, three)).toMatchObject({ crowded: 1, recorded: 3, succeeded: 3 });
  });

  it('keeps fewer at once when the rules allow fewer', async () => {
    const channel = new Twin(await bench());
    const never = policyOf({ window: log({ maxEntries: 100 }), rate: 0 });
    await channel.record('FSFSFSFSFS', never);
    const three = policyOf({ window: log({ maxEntries: 3, minCalls: 1 }), rate: 0 });
    expect(await channel.record('S', three)).toMatchObject({ recorded: 3, crowded: 1 });
    expect(await channel.client.zcard(channel.names[7])).toBe(3);
  });

  it('remembers a healthy channel, and counts a replay of it once', async () => {
    const channel = new Twin(await bench());
    const batch = { ...batchOfOne('1111'), entries: [['9000002', 0, 4]] as const };
    expect(await channel.send(batch, L10)).toMatchObject({ counted: 4, recorded: 4 });
    expect(await channel.send(batch, L10)).toMatchObject({ counted: 0, duplicate: 4 });
    expect(await channel.client.zcard(channel.names[7])).toBe(4);
  });

  it.each([
    ['the calls were deleted', ['del', 7]],
    ['the counts were deleted', ['del', 6]],
    ['a call was added', ['zadd', 7, '1', 'mine']],
    ['a count was changed', ['hset', 6, '@failures', '40']],
  ] as const)('begins anew after a foreign hand: %s', async (_what, [command, key, ...args]) => {
    const env = await bench();
    const channel = channelOn(env);
    await channel.record('FFFF', L10);
    await env.client.call(command, channel.names[key], ...args);
    const { result } = await channel.record('F', L10);
    expect(result).toMatchObject({ blocked: false, recorded: 1, succeeded: 0 });
    expect(await env.client.zcard(channel.names[7])).toBe(1);
    expect(await env.client.hgetall(channel.names[6])).toMatchObject({ '@failures': '1', '@successes': '0' });
  });
});

describe('a sequential test, in script and model alike', () => {
  it('writes nothing for successes of a healthy channel, which is absent from Redis', async () => {
    const env = await bench();
    const channel = new Twin(env);
    expect(await channel.record('S'.repeat(1_000), Q)).toMatchObject({ counted: 0, pushed: 0 });
    expect(await env.client.exists(...channel.names)).toBe(0);
  });

  it('blocks exactly at its limit: at the last of so many failures in a row, and not at the one before', async () => {
    const channel = new Twin(await bench());
    const most = failuresToBlock(TEST);
    expect(await channel.record('F'.repeat(most - 1), Q)).toMatchObject({ blocked: false, recorded: most - 1 });
    expect(await channel.record('F', Q)).toMatchObject({ blocked: true, recorded: most, succeeded: 0 });
    expect(channel.told).toMatchObject([{ kind: 'blocked', reason: 'sequential-test', size: most, recorded: most }]);
  });

  it('is absent again as soon as successes have brought it to 0, whatever came before', async () => {
    const env = await bench();
    const channel = new Twin(env);
    await channel.record('FF', Q);
    const back = Math.ceil((2 * TEST.up) / TEST.down);
    await channel.record('S'.repeat(back - 1), Q);
    expect(await env.client.hgetall(channel.names[6])).toMatchObject({ '@failures': '2', '@calls': `${back + 1}` });
    await channel.record('S', Q);
    expect(await env.client.exists(channel.names[0], channel.names[6], channel.names[7])).toBe(0);
    // From 0 it takes as many failures as ever.
    expect(await channel.record('F'.repeat(failuresToBlock(TEST) - 1), Q)).toMatchObject({ blocked: false });
  });

  it('does not block a channel that is as healthy as it should be, and one that fails half of its calls soon', async () => {
    const channel = new Twin(await bench());
    expect(await channel.record(`F${'S'.repeat(19)}`.repeat(50), Q)).toMatchObject({ blocked: false });
    const { counted } = await channel.record('SF'.repeat(500), Q);
    // The mean of random calls is some 13; strictly in turn they are evenly mixed.
    expect(counted).toBeLessThan(2 * callsToBlock(TEST, 0.5));
    expect(channel.kinds()).toEqual(['blocked']);
  });

  it('begins at 0 after a block, and under another test', async () => {
    const channel = new Twin(await bench());
    const [most, other] = [failuresToBlock(TEST), sequentialTest(0.9, 0.5, 1e-6)];
    await channel.record('F'.repeat(most), Q);
    channel.pass(60_001);
    expect(await channel.record('F'.repeat(most - 1), Q)).toMatchObject({ blocked: false, recorded: most - 1 });
    const wider = policyOf({ window: { ...SEQUENTIAL, ...other, healthy: 9_000 } });
    expect(await channel.record('F', wider)).toMatchObject({ blocked: false, recorded: 1 });
  });
});

describe('a change of kind', () => {
  const KINDS = {
    count: { policy: policyOf({ rate: 0 }), keys: [0], field: undefined },
    time: { policy: policyOf({ window: T10, rate: 0 }), keys: [6], field: '@length' },
    log: { policy: policyOf({ window: log(), rate: 0 }), keys: [6, 7], field: '@log' },
    sequential: { policy: Q, keys: [6], field: '@test' },
  } as const;
  const names = Object.keys(KINDS) as (keyof typeof KINDS)[];
  const pairs = names.flatMap((from) => names.filter((to) => to !== from).map((to) => [from, to] as const));

  it.each(pairs)('from %s to %s deletes what the other kept, and judges by the new one', async (from, to) => {
    const env = await bench();
    const channel = new Twin(env);
    await channel.record('FSF', KINDS[from].policy);
    const { policy, keys, field } = KINDS[to];
    // What the healthy case of the new kind leaves: nothing of the old one.
    expect(await channel.record('S', policy)).toMatchObject({ recorded: to === 'time' || to === 'log' ? 1 : 0 });
    const kept = to === 'time' || to === 'log' ? keys : [];
    await seeKeys(kept, kept.length > 0 ? field : undefined);
    await channel.record('FSF', KINDS[from].policy);
    expect(await channel.record('F', policy)).toMatchObject({ recorded: 1, succeeded: 0 });
    await seeKeys(keys, field);

    async function seeKeys(wanted: readonly number[], mark: string | undefined): Promise<void> {
      const there = await Promise.all(
        [0, 6, 7].map(async (i) => ((await env.client.exists(channel.names[i]!)) ? [i] : [])),
      );
      expect(there.flat()).toEqual(wanted);
      const marks = (await env.client.hkeys(channel.names[6])).filter((name) => /^@(length|log|test)$/.test(name));
      expect(marks).toEqual(mark === undefined ? [] : [mark]);
    }
  });
});

/** A batch without entries yet. */
function batchOfOne(results: string) {
  const evidence = [...results].filter((one) => one !== '1').map((_, at) => JSON.stringify({ at }));
  return { partition: 'test/log/0/0', results, times: [] as number[], evidence };
}
