import { describe, expect, it } from 'vitest';
import { record } from '../../src/channel/record.js';
import { recover } from '../../src/channel/recover.js';
import { readStatus, type Status } from '../../src/cli/status-read.js';
import { statusText } from '../../src/cli/status-text.js';
import { parseRulesValue } from '../../src/domain/rules.js';
import { batchOf, bench, FRESH_MS } from '../channel/support.js';
import { until } from '../support/wait.js';

const DOCUMENT = {
  version: 1,
  mode: 'on',
  defaults: { window: 10, successRate: 80, block: '30m' },
  channels: {
    tried: { block: '1ms', halfOpen: { percent: 10, ramp: [50], close: 3, wait: '30m' } },
    lent: { block: '1ms', halfOpen: { permits: 2, close: 1, wait: '30m' } },
    waiting: { release: 'manual' },
    degraded: { window: 20, levels: { cached: 60, fallback: 40, blocked: 20 } },
    logged: { window: { kind: 'log', span: '1m', minCalls: 5 }, slowCall: '1s', slowRate: 90 },
    timed: { window: { kind: 'time', span: '1m', minCalls: 50 }, slowCall: '1s', slowAs: 'failure' },
    tested: { window: { kind: 'sequential', healthy: 95, failing: 50 } },
    learning: { block: { for: '10m', timesMean: 2.5, max: '1h' } },
    unlearned: { block: { for: '10m', timesMean: 2.5, max: '1h' } },
    limited: { rateLimited: { min: '1m' } },
    plain: {},
  },
};

async function place() {
  const env = await bench();
  const { client, keys } = env;
  await client.set(keys.config, JSON.stringify(DOCUMENT));
  const parsed = parseRulesValue(DOCUMENT);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems));
  const policyFor = (channel: string) => parsed.rules.policyFor(channel);
  return {
    ...{ client, keys },
    async record(channel: string, story: string) {
      await client.zadd(keys.agenda, 1, channel);
      return await record(client, keys, channel, policyFor(channel), FRESH_MS, batchOf(story));
    },
    recover: (channel: string) => recover(client, keys, channel, policyFor(channel), FRESH_MS),
    async status(): Promise<{ status: Status; of: (channel: string) => Status['channels'][number]; text: string }> {
      const status = await readStatus({ main: client, log: client, keys, busiest: 10 });
      const of = (channel: string) => status.channels.find((one) => one.channel === channel)!;
      return { status, of, text: statusText(status, 'here') };
    },
  };
}
const rowOf = (text: string, channel: string) => text.split('\n').find((line) => line.startsWith(channel))!;

describe('fuseline status', () => {
  it('shows a trial: who is let through, at which step, and how many good calls there were of those it takes', async () => {
    const here = await place();
    for (const channel of ['tried', 'lent']) {
      await here.record(channel, 'FFF');
      await until(() => here.recover(channel), {
        what: 'the end of the block',
        accept: ({ outbox }) => outbox.at(-1)?.kind === 'half-open',
      });
    }
    // Calls that began in the very millisecond in which the trial began would be late.
    await until(() => here.record('tried', 'S'), { what: 'a good call', accept: ({ result }) => result.counted === 1 });
    const first = await here.status();
    expect(first.of('tried')).toMatchObject({
      ...{ state: 'half-open', blocked: true, level: '', awaitsRelease: false },
      trial: { step: 1, steps: 2, percent: 10, good: 1, needed: 3 },
    });
    expect(rowOf(first.text, 'tried')).toMatch(/ON TRIAL.*step 1 of 2: 10 % of users, 1 of 3 good calls/);
    expect(rowOf(first.text, 'lent')).toMatch(/ON TRIAL.* {2}2 at once, 0 of 1 good calls/);
    expect(first.text).toContain('none blocked, 2 on trial');
    await here.record('tried', 'SS');
    const { of } = await here.status();
    expect(of('tried').trial).toEqual({ step: 2, steps: 2, percent: 50, good: 0, needed: 3 });
  });

  it('names the prefix, and does not know what waits before the shards are laid out', async () => {
    const { status } = await (await place()).status();
    expect(status.log).toEqual({ shards: 0, lag: null });
    expect(statusText(status, 'here', 'shop:')).toMatch(/^Redis here, prefix shop:, .*waiting entries unknown$/ms);
  });

  it('shows a block key that another program has set on a channel of the rules without traffic', async () => {
    const here = await place();
    await here.client.set(here.keys.blocked('plain'), 'maintenance', 'EX', 600);
    const { of, text } = await here.status();
    expect(of('plain')).toMatchObject({ blocked: true, leftMs: expect.closeTo(600_000, -4) });
    expect(text).toContain('1 blocked');
  });

  it('says which block goes on until somebody unblocks it', async () => {
    const here = await place();
    await here.record('waiting', 'FFF');
    await here.record('plain', 'FFF');
    const { of, text } = await here.status();
    expect([of('waiting').awaitsRelease, of('plain').awaitsRelease]).toEqual([true, false]);
    expect(rowOf(text, 'waiting')).toMatch(/BLOCKED.*goes on until somebody unblocks it/);
    expect(rowOf(text, 'plain')).not.toContain('until somebody');
    expect(text).toContain('2 blocked, 1 until somebody unblocks');
  });

  it('tells how long the next block will be where that is learned from past outages', async () => {
    const here = await place();
    for (const channel of ['learning', 'unlearned', 'plain']) await here.record(channel, 'FFF');
    await here.client.hset(here.keys.state('learning'), 'past', '300000 600000 900000 600000');
    await here.client.hset(here.keys.state('plain'), 'past', '300000 600000 900000');
    const { of, text } = await here.status();
    expect(of('learning').learned).toEqual({ outages: 4, blockMs: 1_500_000 });
    expect(rowOf(text, 'learning')).toContain('next first block 25m (from 4 outages)');
    expect(rowOf(text, 'unlearned')).toContain('next first block 10m (0 of the 3 outages to learn from)');
    expect(of('plain')).not.toHaveProperty('learned');
    // What mode observe has learned, while there is nothing else.
    await here.client.hset(here.keys.state('unlearned'), 'shadow.past', '600000 600000 600000');
    expect((await here.status()).of('unlearned').learned).toEqual({ outages: 3, blockMs: 1_500_000 });
  });

  it('shows how far a channel in use is degraded', async () => {
    const here = await place();
    await here.record('degraded', 'F'.repeat(9));
    const { of, text } = await here.status();
    expect(of('degraded')).toMatchObject({ state: 'closed', blocked: false, level: 'cached' });
    expect(rowOf(text, 'degraded')).toMatch(/DEGRADED cached .*0 of 9 ok \(20 slots\)/);
    expect(text).toContain('none blocked, 1 degraded');
  });

  it('counts what is in a window of any kind, slow calls as the policy counts them', async () => {
    const here = await place();
    await here.record('logged', 'SLF');
    await here.record('timed', 'SSLF');
    await here.record('tested', 'FS');
    await here.record('plain', 'FS');
    const { of, text } = await here.status();
    const minute = { spanMs: 60_000 };
    expect(of('logged').window).toEqual({ kind: 'log', size: 3, recorded: 3, succeeded: 2, slow: 1, ...minute });
    expect(of('timed').window).toEqual({ kind: 'time', size: 4, recorded: 4, succeeded: 2, slow: 1, ...minute });
    expect(of('tested').window).toMatchObject({ kind: 'sequential', size: 2, recorded: 2, succeeded: 1 });
    const { score, limit } = of('tested').window;
    expect(score).toBeGreaterThan(0);
    expect(limit).toBeGreaterThan(score!);
    expect(of('plain').window).toEqual({ kind: 'count', size: 10, recorded: 2, succeeded: 1 });
    expect(rowOf(text, 'logged')).toContain('2 of 3 ok, 1 slow, in 1m');
    expect(rowOf(text, 'timed')).toContain('2 of 4 ok, 1 slow, in 1m');
    expect(rowOf(text, 'tested')).toContain(`1 of 2 ok since it began to fail, score ${score} of ${limit}`);
    expect(rowOf(text, 'plain')).toContain('1 of 2 ok (10 slots)');
  });

  it('tells a channel that is hidden because the third party asked to wait from one that is blocked', async () => {
    const here = await place();
    await here.record('limited', 'W');
    const { of, text } = await here.status();
    expect(of('limited')).toMatchObject({ blocked: true, reason: 'rate-limited', incident: '', relapse: 0 });
    expect(rowOf(text, 'limited')).toMatch(/HIDDEN +(1m|59s) .*the third party asked to wait/);
    expect(text).toContain('none blocked, 1 hidden because the third party asked to wait');
  });
});
