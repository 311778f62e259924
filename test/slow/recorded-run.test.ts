import { join } from 'node:path';
import { expect, it } from 'vitest';
import { readFeed } from '../../src/channel/feed.js';
import type { Transition } from '../../src/domain/transition.js';
import { createPublisher } from '../../src/publisher/index.js';
import type { ReplayReport } from '../../src/replay/report.js';
import { place } from '../cli/place.js';
import { fuselineHere } from '../cli/run.js';
import { metric, rulesFile, startRoles, untilReady, type Worker } from '../process/workers.js';
import { folder } from '../replay/support.js';
import { releaseAtEnd } from '../support/releasers.js';
import { sleep, until } from '../support/wait.js';

const CHANNELS = Array.from({ length: 9 }, (_, i) => `channel-${i}`);
const RULES = {
  mode: 'on',
  defaults: { window: 8, successRate: 60, block: '1500ms', hold: '2s' },
  channels: { 'channel-8': { ignore: ['MINE'] } },
};
const ROUNDS = 3;

/** What happened to a channel, without the times that depend on how fast a worker was. */
type Told = { kind: string; trips: number; decision?: object };
const decisionOf = ({ size, recorded, succeeded, threshold }: Partial<Transition>) => ({
  size,
  recorded,
  succeeded,
  threshold,
});

function toldBy(transitions: readonly Transition[]): Told[] {
  return transitions.map((one) => ({
    ...{ kind: one.kind, trips: one.trips },
    ...(one.kind === 'blocked' || one.kind === 'relapsed' ? { decision: decisionOf(one) } : {}),
  }));
}

function toldIn(report: ReplayReport, channel: string): Told[] {
  const incidents = report.ruleSets[0]!.timeline.filter((one) => one.channel === channel);
  return incidents.flatMap(({ blocks, heldAt }) => [
    ...blocks.flatMap(({ trips, decision, ended }) => [
      { kind: trips > 1 ? 'relapsed' : 'blocked', trips, decision },
      ...(ended ? [{ kind: 'recovered', trips }] : []),
    ]),
    ...(heldAt === undefined ? [] : [{ kind: 'held', trips: blocks.at(-1)!.trips }]),
  ]);
}

/** A channel's share of failures grows with its number; the same every time. */
function results(channel: number, round: number): boolean[] {
  let seed = channel * 7_919 + round * 104_729 + 1;
  return Array.from({ length: 24 }, () => {
    seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff;
    return (seed >> 8) % 10 >= channel;
  });
}

it('a replay of what two workers recorded gives exactly the transitions that they gave on Redis, and the times within what they took', async () => {
  const { client, keys, env, prefix } = place();
  const { path } = await folder();
  const rules = await rulesFile(RULES);
  const common = { ...env, FUSELINE_RULES: rules };
  const files = ['one', 'two'].map((name) => join(path, `${name}.ndjson`));
  const workers: Worker[] = files.map((file, i) =>
    startRoles(i === 0 ? ['outcomes', 'recovery'] : ['outcomes'], { ...common, FUSELINE_RECORD_FILE: file }),
  );
  const publisher = createPublisher({ url: env.FUSELINE_REDIS_URL!, prefix });
  releaseAtEnd(() => publisher.close());
  await Promise.all(workers.map(untilReady));

  const feed = async () => {
    const entries = await readFeed(client, keys, '0-0', 10);
    // One may be told twice; its epoch names it.
    const each = entries.flatMap(({ transition }) => transition ?? []);
    const byEpoch = new Map(each.map((one) => [`${one.channel} ${one.epoch}`, one]));
    return [...byEpoch.values()].sort((a, b) => a.epoch - b.epoch);
  };
  const blocked = async () => (await client.keys(`${prefix}channel_blocked:*`)).length;
  const allHeld = async () => (await client.zcard(keys.agenda)) === 0;
  const metricOf = async (all: readonly Worker[]) =>
    (await Promise.all(all.map((one) => metric(one, 'fuseline_recorded_outcomes_total{result="written"}')))).reduce(
      (sum, n) => sum + n,
    );
  for (let round = 0; round < ROUNDS; round += 1) {
    const past = CHANNELS.map((_, channel) => results(channel, round));
    for (let i = 0; i < past[0]!.length; i += 1) {
      for (const [n, channel] of CHANNELS.entries())
        publisher.publish({ channel, success: past[n]![i]!, code: i % 3 === 0 ? 'MINE' : 'TIMEOUT' });
      if (i % 8 === 7) await publisher.flush();
    }
    await publisher.flush();
    if (round === 0) await until(blocked, { what: 'a block' });
    if (round === ROUNDS - 1) break;
    // What comes next begins after the end as the workers know it; so no outcome lies where their clocks and the log's differ.
    await until(async () => (await blocked()) === 0, { what: 'the blocks to end', intervalMs: 5 });
    if (round === 1) await until(allHeld, { what: 'all to have held', timeoutMs: 20_000 });
    await sleep(20);
  }
  await until(async () => (await metricOf(workers)) >= CHANNELS.length * 24 * ROUNDS, { what: 'all to be recorded' });
  const told = await feed();
  for (const worker of workers) worker.kill();
  await Promise.all(workers.map(({ exited }) => exited));

  const ran = await fuselineHere(['replay', rules, ...files, '--json']);
  expect(ran).toMatchObject({ code: 0, err: '' });
  const report = JSON.parse(ran.out) as ReplayReport;
  expect(report.outcomes).toBe(CHANNELS.length * 24 * ROUNDS);
  expect(told.filter(({ kind }) => kind === 'relapsed').length).toBeGreaterThan(0);
  expect(new Set(told.map(({ channel }) => channel)).size).toBeGreaterThan(4);
  for (const channel of CHANNELS) {
    const real = told.filter((one) => one.channel === channel);
    const replayed = toldIn(report, channel);
    const unfinished = replayed.length < real.length ? real.slice(0, replayed.length) : real;
    // What had not ended when the last outcome arrived is not in a recording: at most the end of the last block and its hold.
    expect(real.length - unfinished.length).toBeLessThanOrEqual(2);
    expect(replayed, channel).toEqual(toldBy(unfinished));
    const begins = report.ruleSets[0]!.timeline.filter((one) => one.channel === channel).flatMap(
      ({ blocks }) => blocks,
    );
    const wanted = real.filter(({ kind }) => kind === 'blocked' || kind === 'relapsed');
    for (const [i, { from, until: end }] of begins.entries()) {
      expect(end - from).toBe(wanted[i]!.until - wanted[i]!.at);
      expect(wanted[i]!.at - from).toBeGreaterThanOrEqual(0);
      expect(wanted[i]!.at - from).toBeLessThan(3_000);
    }
  }
}, 90_000);

it('a worker whose file cannot be written judges all the same, says so once, and counts what is not kept', async () => {
  const { client, keys, env, prefix } = place();
  const { path } = await folder();
  const worker = startRoles(['outcomes'], {
    ...env,
    FUSELINE_RULES: await rulesFile({ mode: 'on', defaults: { window: 4, successRate: 60, block: '1h' } }),
    FUSELINE_RECORD_FILE: join(path, 'missing', 'outcomes.ndjson'),
  });
  const publisher = createPublisher({ url: env.FUSELINE_REDIS_URL!, prefix });
  releaseAtEnd(() => publisher.close());
  await untilReady(worker);
  for (let i = 0; i < 6; i += 1) {
    publisher.publish({ channel: 'C', success: false });
    await publisher.flush();
  }
  await until(() => client.exists(keys.channel('C')[1]), { what: 'the block' });
  await until(async () => (await metric(worker, 'fuseline_recorded_outcomes_total{result="dropped"}')) > 0, {
    what: 'the count',
  });
  expect(await metric(worker, 'fuseline_recording_errors_total')).toBeGreaterThan(0);
  worker.kill();
  expect(await worker.exited).toEqual({ code: 0, signal: null });
  expect(worker.lines.filter((line) => line.includes('outcomes cannot be recorded'))).toHaveLength(1);
}, 60_000);
