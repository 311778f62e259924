import { describe, expect, it } from 'vitest';
import { outages } from '../../bench/judgement.mjs';
import { batchOf, bench, type PolicyInput, policyOf, Twin } from './support.js';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** Blocks of a minute, then of 2.5 times the mean of the last ten outages, from 10 s to an hour; watched for ten minutes. */
const learning = (more: PolicyInput = {}) =>
  policyOf({ maxMs: 60 * MINUTE_MS, ofPast: { timesMean: 2.5, minMs: 10_000 }, holdMs: 10 * MINUTE_MS, ...more });

/** One incident: its blocks, each after as many failures as block; then the watch is survived. Lengths of its blocks, ms. */
async function incident(channel: Twin, blocks: number, policy = learning()): Promise<number[]> {
  const lengths: number[] = [];
  for (let i = 0; i < blocks; i += 1) {
    await channel.record('FFF', policy);
    const { until, at } = channel.told.at(-1)!;
    lengths.push(until - at);
    channel.pass(until - channel.now);
    await channel.recover(policy);
    channel.pass(1_000);
  }
  channel.pass(policy.holdMs + 1);
  await channel.recover(policy);
  return lengths;
}

describe('the length of blocks, learned from past outages, in script and model alike', () => {
  it('is what the rules say until three outages are known, and then their mean times the factor', async () => {
    const channel = new Twin(await bench());
    for (let i = 0; i < 3; i += 1) expect(await incident(channel, 3)).toEqual([MINUTE_MS, MINUTE_MS, MINUTE_MS]);
    // From the first block to the last: twice a minute and a second.
    expect(await incident(channel, 1)).toEqual([2.5 * 122_000]);
  });

  it('counts an outage that one block ended as nothing, and keeps within the shortest and the longest', async () => {
    const short = new Twin(await bench());
    for (let i = 0; i < 3; i += 1) await incident(short, 1);
    expect(await incident(short, 1)).toEqual([10_000]);

    const long = new Twin(await bench());
    for (let i = 0; i < 3; i += 1) await incident(long, 3);
    expect(await incident(long, 1, learning({ maxMs: 2 * MINUTE_MS }))).toEqual([2 * MINUTE_MS]);
  });

  it('is that of the first block: relapses last what is written at least, so that nobody is burnt more often', async () => {
    const channel = new Twin(await bench());
    for (let i = 0; i < 3; i += 1) await incident(channel, 1);
    expect(await incident(channel, 3)).toEqual([10_000, MINUTE_MS, MINUTE_MS]);
  });

  it('stays within the shortest and the longest whatever the jitter', async () => {
    const channel = new Twin(await bench());
    const policy = learning({ jitter: 0.5, maxMs: MINUTE_MS });
    for (let i = 0; i < 3; i += 1) await incident(channel, 1, policy);
    for (let i = 0; i < 10; i += 1) {
      const [first, second] = await incident(channel, 2, policy);
      expect(first).toBeGreaterThanOrEqual(10_000);
      expect(second).toBeLessThanOrEqual(MINUTE_MS);
    }
  });

  it('grows with each relapse from what was learned', async () => {
    const channel = new Twin(await bench());
    const policy = learning({ growth: 2, maxMs: 20 * MINUTE_MS });
    for (let i = 0; i < 3; i += 1) await incident(channel, 2, policy);
    expect(await incident(channel, 4, policy)).toEqual([152_500, 305_000, 610_000, 20 * MINUTE_MS]);
  });

  it('forgets all but the last ten', async () => {
    const channel = new Twin(await bench());
    for (let i = 0; i < 3; i += 1) await incident(channel, 3);
    for (let i = 0; i < 9; i += 1) await incident(channel, 1);
    expect((await channel.client.hget(channel.names[2], 'past'))?.split(' ')).toHaveLength(10);
    // One of 122 s among ten.
    expect(await incident(channel, 1)).toEqual([30_500]);
  });

  it('leaves out what a person began, and counts nothing for a relapse by hand', async () => {
    const channel = new Twin(await bench());
    for (let i = 0; i < 3; i += 1) {
      await channel.byHand('block', 8 * 60 * MINUTE_MS, learning());
      await channel.byHand('unblock', 0, learning());
      channel.pass(11 * MINUTE_MS);
      await channel.recover(learning());
    }
    expect(await channel.client.hget(channel.names[2], 'past')).toBe('');
    for (let i = 0; i < 3; i += 1) {
      await channel.record('FFF', learning());
      channel.pass(MINUTE_MS);
      await channel.recover(learning());
      channel.pass(1_000);
      await channel.byHand('block', 2 * MINUTE_MS, learning());
      channel.pass(2 * MINUTE_MS);
      await channel.recover(learning());
      channel.pass(11 * MINUTE_MS);
      await channel.recover(learning());
    }
    expect(await channel.client.hget(channel.names[2], 'past')).toBe('0 0 0');
  });

  it('counts of an incident the longest outage: a failure that comes later than at once, in use, begins another', async () => {
    const channel = new Twin(await bench());
    const policy = learning({ holdMs: 60 * MINUTE_MS });
    await channel.record('FFF', policy);
    for (let i = 0; i < 4; i += 1) {
      channel.pass(MINUTE_MS);
      await channel.recover(policy);
      channel.pass(i === 1 ? 10_000 : 10_001);
      await channel.record('FFF', policy);
    }
    expect(channel.told.at(-1)).toMatchObject({ kind: 'relapsed', trips: 5 });
    channel.pass(MINUTE_MS);
    await channel.recover(policy);
    channel.pass(60 * MINUTE_MS);
    await channel.recover(policy);
    // Only the third block came at once after the second.
    expect(await channel.client.hget(channel.names[2], 'past')).toBe('70000');
  });

  it('counts no time that a person, another program or a block without release added', async () => {
    for (const hand of ['block', 'extend', 'manual'] as const) {
      const channel = new Twin(await bench());
      const policy = learning({ isReleasedByHand: hand === 'manual' });
      await channel.record('FFF', policy);
      if (hand === 'block') {
        channel.pass(MINUTE_MS);
        await channel.recover(policy);
        channel.pass(1_000);
      }
      if (hand !== 'manual') await channel.byHand('block', 3 * DAY_MS, policy);
      channel.pass(3 * DAY_MS);
      await channel.recover(policy);
      if (hand === 'manual') await channel.byHand('unblock', 0, policy);
      channel.pass(1_000);
      await channel.record('FFF', policy);
      channel.pass(3 * DAY_MS);
      await channel.recover(policy);
      if (hand === 'manual') await channel.byHand('unblock', 0, policy);
      channel.pass(11 * MINUTE_MS);
      await channel.recover(policy);
      expect(await channel.client.hget(channel.names[2], 'past'), hand).toBe('0');
    }
  });

  it('leaves a trial that had too few outcomes out, and goes on with the outage after one that failed', async () => {
    const channel = new Twin(await bench());
    const policy = learning({ halfOpen: { steps: [0], permits: 1, close: 2, waitMs: MINUTE_MS, reopens: true } });
    await channel.record('FFF', policy);
    channel.pass(MINUTE_MS);
    await channel.recover(policy);
    channel.pass(MINUTE_MS);
    await channel.recover(policy);
    expect(channel.told.at(-1)).toMatchObject({ reason: 'half-open-timeout', to: 'open' });
    channel.pass(MINUTE_MS);
    await channel.recover(policy);
    channel.pass(10_000);
    await channel.record('F', policy);
    expect(channel.told.at(-1)).toMatchObject({ reason: 'half-open-failure' });
    channel.pass(MINUTE_MS);
    await channel.recover(policy);
    channel.pass(20_000);
    await channel.record('SS', policy);
    channel.pass(11 * MINUTE_MS);
    await channel.recover(policy);
    expect(channel.told.at(-1)).toMatchObject({ kind: 'held' });
    expect(await channel.client.hget(channel.names[2], 'past')).toBe('190000');
  });

  it('holds in mode on what mode observe has learned, until the channel has an outage of its own', async () => {
    const channel = new Twin(await bench());
    const observed = learning({ mode: 'observe' });
    for (let i = 0; i < 3; i += 1) {
      for (let block = 0; block < 2; block += 1) {
        await channel.record('FFF', observed);
        channel.pass(MINUTE_MS);
        await channel.recover(observed);
        channel.pass(1_000);
      }
      channel.pass(11 * MINUTE_MS);
      await channel.recover(observed);
    }
    expect(await channel.client.hget(channel.names[2], 'shadow.past')).toBe('61000 61000 61000');
    expect(await incident(channel, 1)).toEqual([152_500]);
    expect(await channel.client.hget(channel.names[2], 'past')).toBe('61000 61000 61000 0');
  });

  it('holds without a watch too, after which every block is an incident', async () => {
    const channel = new Twin(await bench());
    const policy = learning({ holdMs: 0 });
    for (let i = 0; i < 3; i += 1) await incident(channel, 1, policy);
    expect(await incident(channel, 1, policy)).toEqual([10_000]);
  });

  it('is remembered for 90 days after the last incident', async () => {
    const channel = new Twin(await bench());
    for (let i = 0; i < 3; i += 1) await incident(channel, 3);
    channel.pass(89 * DAY_MS);
    expect(await incident(channel, 3)).toEqual([305_000, 305_000, 305_000]);
    channel.pass(91 * DAY_MS);
    expect(await incident(channel, 1)).toEqual([MINUTE_MS]);
  });

  it('writes nothing of it under a plain policy, and learns from the moment in which the rules ask for it', async () => {
    const channel = new Twin(await bench());
    await incident(channel, 3, policyOf({}));
    expect(await channel.client.hmget(channel.names[2], 'past', 'badFrom')).toEqual([null, null]);
    for (let i = 0; i < 3; i += 1) await incident(channel, 3);
    expect(await incident(channel, 1)).toEqual([305_000]);
  });

  it('is drawn once: a batch that is read again finds the same block', async () => {
    const channel = new Twin(await bench());
    for (let i = 0; i < 3; i += 1) await incident(channel, 3);
    const batch = batchOf('FFF');
    await channel.send(batch, learning());
    expect(await channel.send(batch, learning())).toMatchObject({ pushed: 0, blocked: true });
    expect(await channel.client.pexpiretime(channel.names[1])).toBe(channel.told.at(-1)!.until);
  });
});

it('comes to rest near the length of the outages, and does not feed on itself', () => {
  const policy = learning({ growth: 2, maxMs: 240 * MINUTE_MS });
  const firstBlocks = (count: number, outageMs: number) =>
    outages(policy, count, () => outageMs).map(({ firstMs }) => firstMs);
  for (const outageMs of [5 * MINUTE_MS, 30 * MINUTE_MS]) {
    const late = firstBlocks(60, outageMs).slice(30);
    const mean = late.reduce((sum, ms) => sum + ms, 0) / late.length;
    expect(mean, `outages of ${outageMs} ms: ${late.join(' ')}`).toBeGreaterThan(outageMs / 2);
    expect(mean, `outages of ${outageMs} ms: ${late.join(' ')}`).toBeLessThan(outageMs * 2);
  }
  // Over before the first block ends: down to the shortest, and there it stays.
  expect(firstBlocks(20, 5_000).slice(12)).toEqual(new Array(8).fill(10_000));
});
