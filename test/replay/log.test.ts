import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { ReplayReport } from '../../src/replay/report.js';
import { place } from '../cli/place.js';
import { fuseline, fuselineHere } from '../cli/run.js';
import { failures, folder, START } from './support.js';

const RULES = { mode: 'on', defaults: { window: 10, successRate: 70, block: '30m' } };

/** A log of three shards that holds a past, one outcome an entry, and one entry that nobody can read. */
async function streams() {
  const { client, keys, env } = place();
  await client.hset(keys.shards, { v: 1, count: 2, 0: 1, 1: 1, 5: 1 });
  const past = [...failures('A', 0, 6), ...failures('B', 500, 6)].sort((a, b) => a.after! - b.after!);
  for (const { channel, success, after, code } of past) {
    const fields = { channel: channel!, success: success ? '1' : '0', code: String(code) };
    await client.xadd(keys.outcomes(channel === 'A' ? 0 : 5), `${START + after!}-1`, ...Object.entries(fields).flat());
  }
  await client.xadd(keys.outcomes(0), `${START + 9_000}-1`, 'outcomes', 'no JSON');
  const packed = JSON.stringify([
    { channel: 'A', success: false },
    { channel: 'A', success: 'maybe' },
  ]);
  await client.xadd(keys.outcomes(0), `${START + 10_000}-1`, 'outcomes', packed);
  const dump = async () =>
    Promise.all((await client.keys(`${keys.prefix}*`)).sort().map(async (key) => [key, await client.dumpBuffer(key)]));
  const { put } = await folder();
  return { env, dump, rules: await put('rules.yaml', RULES), client, keys };
}

async function replay(args: string[], env: Record<string, string>) {
  const ran = await fuselineHere(['replay', ...args, '--json'], env);
  expect(ran.code, ran.err).toBe(0);
  return { err: ran.err, report: JSON.parse(ran.out) as ReplayReport };
}

it('replays what the streams of the log hold, all shards by time, and changes nothing in Redis', async () => {
  const { env, dump, rules } = await streams();
  const before = await dump();
  const { report, err } = await replay([rules, '--log'], env);
  expect(await dump()).toEqual(before);
  expect(report).toMatchObject({ outcomes: 13, from: START, to: START + 10_000, read: { read: 14, bad: 2 } });
  expect(report.ruleSets[0]!.timeline.map(({ channel, blocks }) => [channel, blocks[0]!.from - START])).toEqual([
    ['A', 3_000],
    ['B', 3_500],
  ]);
  expect(err).toMatch(/outcomes\/0 \d+-1: the field "outcomes" is no JSON/);
  expect(err).toMatch(/outcomes\/0\/?.* \d+-1: success must be/);
});

it('replays a time of the log alone', async () => {
  const { env, rules } = await streams();
  const { report } = await replay(
    [rules, '--log', '--from', String(START + 1_000), '--to', String(START + 3_500)],
    env,
  );
  expect(report).toMatchObject({
    outcomes: 5,
    from: START + 1_000,
    to: START + 3_000,
    read: { read: 5, outOfRange: 0 },
  });
});

it('reads on where many entries lie in one shard, and takes an entry of many outcomes for one', async () => {
  const { env, rules, client, keys } = await streams();
  const pipeline = client.pipeline();
  for (let i = 0; i < 900; i += 1) {
    const outcomes = Array.from({ length: 3 }, () => ({ channel: 'C', success: true, source: 'x'.repeat(100) }));
    pipeline.xadd(keys.outcomes(1), `${START + i}-${i}`, 'outcomes', JSON.stringify(outcomes));
  }
  await pipeline.exec();
  const { report } = await replay([rules, '--log'], env);
  expect(report.ruleSets[0]!.channels.find(({ channel }) => channel === 'C')!.calls).toBe(2_700);
});

it('says that there is nothing in the log', async () => {
  const { rules } = await streams();
  const empty = await fuselineHere(['replay', rules, '--log'], place().env);
  expect(empty.code).toBe(1);
  expect(empty.err).toContain('nothing to replay: 0 read');
});

it('keeps what fuseline publish sent in a file that can be replayed, and says what it could not keep', async () => {
  const { env } = place();
  const { path, put } = await folder();
  const rules = await put('rules.yaml', RULES);
  const file = join(path, 'sent.ndjson');
  const lines = Array.from(
    { length: 1_200 },
    (_, i) => `{"channel":"C","success":${i < 1_000},"agoMs":${i === 0 ? 5_000 : 0}}`,
  );
  const sent = await fuseline(['publish', '--record', file], env, [...lines, 'bad'].join('\n'));
  expect(sent.out).toBe('sent 1200, invalid 1, unsent 0, unknown 0\n');
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  const kept = (await readFile(file, 'utf8'))
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(kept.map(({ success }) => success)).toEqual(lines.map((_, i) => i < 1_000));
  expect(kept[0].agoMs).toBeGreaterThanOrEqual(5_000);
  const { report } = await replay([rules, file], env);
  expect(report).toMatchObject({ outcomes: 1_200 });
  expect(report.ruleSets[0]).toMatchObject({ incidents: 1, callsWhileBlocked: 196 });

  const flags = ['publish', '--channel', 'C', '--success', '--record', join(path, 'missing', 'sent.ndjson')];
  const lost = await fuselineHere(flags, env);
  expect(lost).toMatchObject({ code: 1, out: 'sent 1, invalid 0, unsent 0, unknown 0\n' });
  expect(lost.err).toMatch(/fuseline: 1 sent, but 1 not recorded in .*sent\.ndjson: ENOENT/);
});
