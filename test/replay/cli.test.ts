import { readFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { bar } from '../../src/cli/progress.js';
import type { ReplayReport } from '../../src/replay/report.js';
import { fuseline, fuselineHere } from '../cli/run.js';
import { failures, folder, type Line, linesOf, START } from './support.js';

const RULES = { mode: 'observe', defaults: { window: 10, successRate: 70, block: '30m', hold: '30m' } };
const LAX = { mode: 'observe', defaults: { window: 20, successRate: 50, block: '5m', hold: '30m' } };

/** A short trouble of A, which four failures make one, and a long one of B. */
const PAST: Line[] = [
  { channel: 'A', success: true },
  ...failures('A', 60_000, 5),
  ...failures('B', 120_000, 15),
  { channel: 'B', success: true, after: 130_500 },
  { channel: 'A', success: true, after: 7_200_000 },
].sort((a, b) => (a.after ?? 0) - (b.after ?? 0));

async function stage(rules: object = RULES) {
  const { put, path } = await folder();
  return { put, path, rules: await put('rules.yaml', rules), outcomes: await put('outcomes.ndjson', linesOf(PAST)) };
}

const json = async (args: string[]) => {
  const ran = await fuselineHere(['replay', ...args, '--json']);
  expect(ran).toMatchObject({ code: 0 });
  return { ...ran, report: JSON.parse(ran.out) as ReplayReport };
};

it('tells people what rules would have blocked, when, why, and what it would have saved', async () => {
  const { rules, outcomes } = await stage();
  const { code, out, err } = await fuselineHere(['replay', rules, outcomes]);
  expect({ code, err }).toEqual({ code: 0, err: '' });
  expect(out).toMatch(/^23 outcomes, .* \(2h 0m\)|^23 outcomes, .* \(2h\)/m);
  expect(out).toContain('judged as if every channel had mode on');
  expect(out).toContain('2 incidents on 2 channels, 2 blocks (0 relapses), 1h in all');
  expect(out).toContain('during blocks came 13 calls: 12 failures that would not have reached users, 1 success that');
  expect(out).toMatch(/^B +observe +16 +15 \(93.75 %\) +1 +1 +30m +12 +11$/m);
  expect(out).toMatch(
    / A {2}blocked: 4 of 4 \(window 10\) failed, below 70 %; TIMEOUT 4; for 30m; 1 call meanwhile, 1 failed$/m,
  );
  expect(out).toMatch(/ B {2}held$/m);
  expect(out).toMatch(/^A +#+\.+$/m);
});

it('gives programs the same as one JSON document', async () => {
  const { rules, outcomes } = await stage();
  const { report } = await json([rules, outcomes]);
  expect(report).toMatchObject({
    v: 1,
    outcomes: 23,
    from: START,
    to: START + 7_200_000,
    read: { read: 23, bad: 0, firstBad: [], outOfRange: 0, endsEarly: [] },
    mode: 'on',
  });
  expect(report).not.toHaveProperty('differences');
  const [one] = report.ruleSets;
  expect(one).toMatchObject({
    ...{ name: rules, incidents: 2, blocks: 2, relapses: 0, blockedMs: 3_600_000, suspicions: 0 },
    ...{ callsWhileBlocked: 13, failuresWhileBlocked: 12, blocksOmitted: 0, pauses: { times: 0, ms: 0 } },
    dispositions: { healthy: 2, counted: 8, blocked: 13, late: 0, stale: 0, duplicate: 0, ignored: 0, disabled: 0 },
  });
  expect(one!.channels[0]).toMatchObject({ channel: 'B', mode: 'observe', calls: 16, blocks: 1 });
  const [first] = one!.timeline;
  expect(first).toMatchObject({ channel: 'A', heldAt: START + 63_000 + 3_600_000 });
  expect(first!.blocks[0]).toMatchObject({ from: START + 63_000, until: START + 1_863_000, ended: true, calls: 1 });
});

it('shows two sets of rules side by side, and the incidents in which they differ', async () => {
  const { put, rules, outcomes } = await stage();
  const lax = await put('lax.yaml', LAX);
  const { report } = await json([rules, '--against', lax, outcomes]);
  expect(report.ruleSets.map(({ name, incidents }) => [name, incidents])).toEqual([
    [rules, 2],
    [lax, 1],
  ]);
  expect(report.differences!.map(({ channel, kind }) => [channel, kind])).toEqual([
    ['A', 'only-first'],
    ['B', 'shorter'],
  ]);
  const text = (await fuselineHere(['replay', rules, '--against', lax, outcomes])).out;
  expect(text).toContain('2 incidents differ:');
  expect(text).toMatch(/ A +only the first +\d\d:\d\d:\d\d, 30m, 1 failure saved +not blocked$/m);
  const same = (await fuselineHere(['replay', rules, '--against', rules, outcomes])).out;
  expect(same).toContain('would have blocked the same, at the same times');
});

it('replays a time alone, with windows that begin empty', async () => {
  const { rules, outcomes } = await stage();
  const at = (ms: number) => new Date(START + ms).toISOString();
  const { report } = await json([rules, outcomes, '--from', at(61_000), '--to', String(START + 131_000)]);
  expect(report).toMatchObject({ outcomes: 16, from: START + 61_000, to: START + 130_500, read: { outOfRange: 7 } });
  // Of the five failures of A one came before: the fifth is the one that blocks.
  expect(report.ruleSets[0]!.timeline[0]!.blocks[0]!.from).toBe(START + 64_000);
  const none = await fuselineHere(['replay', rules, outcomes, '--from', '1h']);
  expect(none).toMatchObject({ code: 1, out: '' });
  expect(none.err).toContain('nothing to replay: 23 read, 0 of them bad, 23 lie outside the time asked for');
});

it('counts lines that cannot be read, names the first ones by number with the rule, and replays the rest', async () => {
  const { put, rules } = await stage();
  const good = linesOf(failures('A', 0, 4));
  const bad = [
    'nonsense',
    '{"channel":"A","success":true}',
    '{"channel":"A","success":true,"at":"yesterday"}',
    '{"channel":"A","success":true,"arrivalMs":1760000000}',
    `{"channel":"{A}","success":true,"at":${START}}`,
    '[]',
  ];
  const outcomes = await put('bad.ndjson', ['', ...bad, ...good]);
  const { report, err } = await json([rules, outcomes]);
  expect(report).toMatchObject({ outcomes: 4, read: { read: 10, bad: 6 } });
  expect(err).toMatch(/^line 2: not JSON: /m);
  expect(err).toMatch(/^line 3: a line needs arrivalMs, as recordings have it, or at: /m);
  expect(err).toMatch(/^line 4: at must be ms since 1970 .* got "yesterday"$/m);
  expect(err).toMatch(/^line 5: arrivalMs must be ms since 1970 .* got 1760000000$/m);
  expect(err).toMatch(/^line 6: channel must not hold/m);
  expect(err).toMatch(/^and 1 more that could not be read$/m);
  const nothing = await fuselineHere(['replay', rules, await put('none.ndjson', bad)]);
  expect(nothing).toMatchObject({ code: 1, out: '' });
  expect(nothing.err).toContain('fuseline: nothing to replay: 6 read, 6 of them bad');
});

it('takes at for the time of lines that were not recorded, and judges them by it', async () => {
  const { put, rules } = await stage();
  const line = (second: number) =>
    JSON.stringify({ channel: 'A', success: 0, at: new Date(START + second * 1_000).toISOString() });
  const { report } = await json([rules, await put('own.ndjson', [0, 1, 2, 3].map(line))]);
  expect(report.ruleSets[0]!.timeline[0]!.blocks[0]!.from).toBe(START + 3_000);
});

it('reads standard input, packed files, and several files merged by time, all with the same result', async () => {
  const { put, rules, outcomes } = await stage();
  const lines = linesOf(PAST);
  const { report: whole } = await json([rules, outcomes]);
  const packed = await put('outcomes.ndjson.gz', gzipSync(await readFile(outcomes)));
  const odd = await put(
    'odd.ndjson',
    lines.filter((_, i) => i % 2 === 1),
  );
  const even = await put(
    'even.ndjson',
    lines.filter((_, i) => i % 2 === 0),
  );
  const piped = await fuseline(['replay', rules, '-', '--json'], {}, await readFile(outcomes));
  expect(piped).toMatchObject({ code: 0, err: '' });
  const reports = [
    (await json([rules, packed])).report,
    (await json([rules, odd, even])).report,
    JSON.parse(piped.out),
  ];
  for (const report of reports) expect(report).toEqual(whole);
});

it('says that a packed file ends early, and replays what came before', async () => {
  const { put, rules, outcomes } = await stage();
  const noise = Array.from({ length: 3_000 }, (_, i) =>
    JSON.stringify({ channel: 'N', success: true, at: START, code: i * 7919 }),
  );
  const bytes = gzipSync(Buffer.concat([await readFile(outcomes), Buffer.from(noise.join('\n'))]));
  const cut = await put('cut.ndjson.gz', bytes.subarray(0, bytes.length - 100));
  const { report, err } = await json([rules, cut]);
  expect(report.outcomes).toBeGreaterThan(1_000);
  expect(report.read.endsEarly).toHaveLength(1);
  expect(err).toMatch(/warning: not read to its end: .*cut\.ndjson\.gz/);
});

it.each([
  [['rules.yaml'], 2, 'replay needs files of outcomes (- for standard input) or --log, one of them'],
  [['rules.yaml', 'outcomes.ndjson', '--log'], 2, 'one of them'],
  [['rules.yaml', '-', '-'], 2, 'standard input (-) can be read once only'],
  [['rules.yaml', 'outcomes.ndjson', '--mode', 'off'], 2, '--mode must be on or as-written, got "off"'],
  [['rules.yaml', 'outcomes.ndjson', '--from', 'noon'], 2, '--from must be a time such as'],
  [['rules.yaml', 'outcomes.ndjson', '--from', '1h', '--to', '2h'], 2, '--from must lie before --to'],
  [['rules.yaml', 'missing.ndjson'], 1, 'missing.ndjson cannot be read (ENOENT)'],
  [['rules.yaml', '.'], 1, 'is a folder, not a file of outcomes'],
  [['missing.yaml', 'outcomes.ndjson'], 1, 'missing.yaml cannot be read (ENOENT)'],
  [['outcomes.ndjson', 'outcomes.ndjson'], 1, 'outcomes.ndjson: '],
])('refuses %j with %i, and says why', async (args, code, why) => {
  const { path } = await stage();
  const placed = args.map((arg) => (/^(\w+\.\w+|\.)$/.test(arg) ? `${path}/${arg}` : arg));
  const ran = await fuselineHere(['replay', ...placed]);
  expect(ran).toMatchObject({ code, out: '' });
  expect(ran.err).toContain(why);
});

it('draws a bar of what is read, and of how long it will take', () => {
  expect(bar({ read: 500_000, done: 50, total: 200 }, 1_000)).toBe(
    '[########......................] 25 %  500,000 read, 500,000/s, 3s left',
  );
  expect(bar({ read: 10, done: 50 }, 1_000)).toBe('10 read, 10/s');
});
