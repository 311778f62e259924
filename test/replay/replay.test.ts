import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ChannelModel } from '../../src/domain/channel-model.js';
import { parseRulesValue } from '../../src/domain/rules.js';
import { mergeByArrival } from '../../src/replay/merge.js';
import { Batches, PastEntry } from '../../src/replay/past.js';
import { Replay, type ReplayOptions } from '../../src/replay/replay.js';
import { START } from './support.js';

function rulesOf(document: object): ReplayOptions['rules'] {
  const parsed = parseRulesValue(document);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems));
  return parsed.rules;
}

const SHORT = { mode: 'on', defaults: { window: 4, successRate: 60, block: '2s', hold: '3s' } };
const USUAL = { mode: 'on', defaults: { window: 10, successRate: 70, block: '30m', hold: '30m' } };

type Past = { channel: string; success: boolean; at: number; partition?: string; position?: string; source?: number };

/** Replays outcomes as they are given, each an entry of its own unless positions say otherwise. */
function replayOf(past: readonly Past[], document: object, options: Partial<ReplayOptions> = {}) {
  const replay = new Replay({
    rules: rulesOf(document),
    mode: 'on',
    freshForMs: 300_000,
    maxChannels: 10_000,
    ...options,
  });
  const batches = new Batches((batch, arrivalMs) => replay.take(batch, arrivalMs));
  past.forEach(({ channel, success, at, partition = 'log/0/1', position, source = 0 }, i) => {
    const outcome = { channel, success, code: success ? undefined : 'TIMEOUT' };
    batches.add(new PastEntry(partition, position ?? `${START + at}-${i}`, START + at, [outcome], source));
  });
  batches.end();
  return replay.end();
}

const failing = (channel: string, from: number, times: number): Past[] =>
  Array.from({ length: times }, (_, i) => ({ channel, success: false, at: from + i * 1_000 }));
const minutes = (n: number) => n * 60_000;

it('ends blocks and holds at their own times, though nothing comes then', () => {
  const { incidents } = replayOf([...failing('C', 0, 4), { channel: 'C', success: true, at: minutes(120) }], USUAL);
  expect(incidents).toHaveLength(1);
  const from = START + 3_000;
  expect(incidents[0]).toMatchObject({
    channel: 'C',
    observed: false,
    heldAt: from + minutes(60),
    blocks: [{ from, until: from + minutes(30), ended: true, trips: 1, codes: [['TIMEOUT', 4]] }],
  });
  expect(incidents[0]!.blocks[0]!.decision).toMatchObject({ size: 10, recorded: 4, succeeded: 0, threshold: 7_000 });
});

it('counts what came during a block apart: the failures that would not have reached users, and the successes lost to it', () => {
  const during = [...failing('C', 10_000, 5), { channel: 'C', success: true, at: 20_000 }];
  const { incidents, dispositions, channels } = replayOf([...failing('C', 0, 4), ...during], USUAL);
  expect(incidents[0]!.blocks[0]).toMatchObject({ calls: 6, failures: 5, ended: false });
  expect(dispositions).toMatchObject({ counted: 4, blocked: 6, healthy: 0 });
  expect(channels.get('C')).toMatchObject({ calls: 10, failures: 9, callsWhileBlocked: 6, failuresWhileBlocked: 5 });
});

it('calls a second block within the hold a relapse of the same incident, and one after it a new incident', () => {
  const past = [...failing('C', 0, 4), ...failing('C', minutes(40), 4), ...failing('C', minutes(200), 4)];
  const { incidents } = replayOf(past, USUAL);
  expect(incidents.map(({ blocks }) => blocks.map(({ trips }) => trips))).toEqual([[1, 2], [1]]);
});

it('takes a trial for a part of its block: it ends with the first bad call, with the last good one, or at its deadline', () => {
  const tried = { ...SHORT, defaults: { ...SHORT.defaults, halfOpen: { close: 2, wait: '4s' } } };
  const ok = (at: number): Past => ({ channel: 'C', success: true, at });
  const bad = (at: number): Past => ({ channel: 'C', success: false, at });
  const first = [bad(0), bad(1)];
  const lasts = (past: Past[]) => {
    const blocks = replayOf([...first, ...past], tried).incidents.flatMap((incident) => incident.blocks);
    return blocks.map(({ from, until, ended }) => [from - START, until - START, ended]);
  };
  expect(lasts([bad(3_000), ok(20_000)])).toEqual([
    [1, 3_000, true],
    [3_000, 9_000, true],
  ]);
  expect(lasts([ok(3_000), ok(3_500), ok(20_000)])).toEqual([[1, 3_500, true]]);
  expect(lasts([ok(3_000), ok(20_000)])).toEqual([[1, 6_001, true]]);
  expect(lasts([ok(3_000)])).toEqual([[1, 6_001, false]]);
});

it('lets a block that waits for a hand last to the end of what was read, for nobody unblocked in it', () => {
  const manual = { ...SHORT, defaults: { ...SHORT.defaults, block: '1m', release: 'manual' } };
  const { incidents } = replayOf([...failing('C', 0, 4), { channel: 'C', success: true, at: 180_500 }], manual);
  expect(incidents.map(({ blocks }) => blocks.length)).toEqual([1]);
  expect(incidents[0]!.blocks[0]).toMatchObject({ ended: false, calls: 3 });
  expect(incidents[0]!.blocks[0]!.until).toBeGreaterThan(START + 180_500);
});

it('is the same when two partitions of one worker lie in the file one after the other, so that times go back', () => {
  const a = failing('A', 0, 6).map((one) => ({ ...one, partition: 'log/0/1' }));
  const b = failing('B', 500, 6).map((one) => ({ ...one, partition: 'log/1/1' }));
  const byTime = [...a, ...b].sort((x, y) => x.at - y.at);
  const [apart, together] = [replayOf([...a, ...b], USUAL), replayOf(byTime, USUAL)];
  expect(apart.incidents.map(({ channel }) => channel)).toEqual(['A', 'B']);
  expect(apart.incidents).toEqual(together.incidents);
  expect(apart.dispositions).toEqual(together.dispositions);
});

it('takes lines of one entry for one entry, and an entry that was read twice for a duplicate', () => {
  const entry: Past[] = failing('C', 0, 3).map((one) => ({ ...one, at: 0, position: '7' }));
  expect(replayOf(entry, USUAL).dispositions).toMatchObject({ counted: 3, duplicate: 0 });
  const again = entry.map((one) => ({ ...one, source: 1 }));
  expect(replayOf([...entry, ...again], USUAL).dispositions).toMatchObject({ counted: 3, duplicate: 3 });
  const rewound = ['7', '8', '7', '8'].map((position): Past => ({ channel: 'C', success: false, at: 0, position }));
  expect(replayOf(rewound, USUAL).dispositions).toMatchObject({ counted: 2, duplicate: 2 });
});

it('judges what a file dates to one instant in parts, as it would have judged the whole', () => {
  const past = Array.from({ length: 5_000 }, (_, i): Past => ({ channel: `c${i % 3}`, success: i % 50 !== 0, at: 0 }));
  const lax = { mode: 'on', defaults: { window: 100, successRate: 10 } };
  const { dispositions } = replayOf(past, lax);
  expect(dispositions.counted + dispositions.healthy).toBe(5_000);
  const [never] = [
    replayOf(
      past.map((one) => ({ ...one, position: '1' })),
      lax,
    ),
  ];
  expect(never.dispositions.duplicate).toBe(4_000);
});

it('judges observe and off as on, unless it is told to take modes as they are written', () => {
  const document = { ...USUAL, mode: 'observe', channels: { B: { mode: 'off' } } };
  const past = [...failing('A', 0, 6), ...failing('B', 0, 6)];
  const asOn = replayOf(past, document);
  expect(asOn.incidents.map(({ channel, observed }) => [channel, observed])).toEqual([
    ['A', false],
    ['B', false],
  ]);
  expect([asOn.channels.get('A')!.mode, asOn.channels.get('B')!.mode]).toEqual(['observe', 'off']);
  const written = replayOf(past, document, { mode: 'as-written' });
  expect(written.incidents.map(({ channel, observed }) => [channel, observed])).toEqual([['A', true]]);
  expect(written.dispositions).toMatchObject({ disabled: 6, counted: 4, blocked: 2 });
});

it('judges as many channels within ten minutes as a worker would, and forgets those that nothing is left of', () => {
  const flood = (from: number, times: number): Past[] =>
    Array.from({ length: times }, (_, i) => ({ channel: `order-${from}-${i}`, success: true, at: from + i }));
  const hours = Array.from({ length: 6 }, (_, hour) => flood(hour * minutes(60), 15)).flat();
  const { dispositions, channels, forgotten } = replayOf(hours, USUAL, { maxChannels: 10 });
  expect(dispositions).toMatchObject({ healthy: 60, overLimit: 30 });
  expect(channels.size).toBeLessThan(40);
  expect(forgotten.channels + channels.size).toBe(60);
  expect(forgotten.calls).toBe(forgotten.channels);
});

it('gives the transitions of the model that is asked outcome by outcome and woken at each due time', () => {
  const step = fc.record({
    wait: fc.oneof({ weight: 4, arbitrary: fc.integer({ min: 1, max: 400 }) }, fc.integer({ min: 1, max: 6_000 })),
    success: fc.integer({ min: 0, max: 9 }).map((n) => n >= 4),
  });
  const policy = rulesOf(SHORT).policyFor('C');
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 80 }), (steps) => {
      const model = new ChannelModel('C', 300_000);
      const told: [kind: string, at: number][] = [];
      const past: Past[] = [];
      let at = 0;
      const take = () => told.push(...model.takeTransitions().map((one): [string, number] => [one.kind, one.at]));
      for (const [i, { wait, success }] of steps.entries()) {
        for (let ms = 0; ms < wait; ms += 1) {
          at += 1;
          if (model.nextDue() !== START + at) continue;
          model.recover(policy, START + at);
          take();
        }
        const position = `${START + at}-${i}`;
        const entries = [[position, START + at, 1]] as const;
        const evidence = success ? [] : ['{"at":1}'];
        model.record(
          policy,
          { partition: 'log/0/1', results: success ? '1' : '0', entries, times: [], evidence },
          START + at,
        );
        take();
        past.push({ channel: 'C', success, at, position });
      }
      const replayed = replayOf(past, SHORT).incidents.flatMap(({ blocks, heldAt }) => [
        ...blocks.flatMap(({ trips, from, until, ended }): [string, number][] => [
          [trips > 1 ? 'relapsed' : 'blocked', from],
          ...(ended ? [['recovered', until] as [string, number]] : []),
        ]),
        ...(heldAt === undefined ? [] : [['held', heldAt] as [string, number]]),
      ]);
      expect(replayed).toEqual(told);
    }),
    { numRuns: 60 },
  );
});

it('merges sources by arrival, keeps the order of each, and of the same arrival takes the first source first', async () => {
  async function* source(source: number, arrivals: readonly number[]) {
    for (let i = 0; i < arrivals.length; i += 2)
      yield arrivals.slice(i, i + 2).map((at, n) => new PastEntry('p', String(i + n), at, [], source));
    yield [];
  }
  const sources = [source(0, [1, 4, 4, 9]), source(1, [2, 4, 3, 9, 9]), source(2, [])];
  const merged: string[] = [];
  for await (const chunk of mergeByArrival(sources))
    merged.push(...chunk.map((one) => `${one.arrivalMs}@${one.source}`));
  expect(merged).toEqual(['1@0', '2@1', '4@0', '4@0', '4@1', '3@1', '9@0', '9@1', '9@1']);
});
