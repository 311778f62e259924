import { describe, expect, it } from 'vitest';
import { blockMs } from '../../src/domain/policy.js';
import { batchOf, bench, policyOf, START, Twin } from './support.js';

const MANUAL = policyOf({ isReleasedByHand: true });
const MINUTE_MS = 60_000;

describe('release by hand, in script and model alike', () => {
  it('renews the block at its end, and reminds people, again and again, until somebody unblocks', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFF', MANUAL);
    for (let i = 1; i <= 4; i += 1) {
      channel.pass(MINUTE_MS);
      expect(await channel.recover(MANUAL)).toBe(channel.now + MINUTE_MS);
      expect(channel.told[i]).toMatchObject({
        ...{ kind: 'extended', reason: 'awaits-release', from: 'open', to: 'open', trips: 1 },
        ...{ at: channel.now, until: channel.now + MINUTE_MS, block: channel.told[0]!.epoch, blockedAt: START },
      });
      expect(await channel.recover(MANUAL)).toBe(channel.now + MINUTE_MS);
    }
    expect(channel.told.length).toBe(5);
    expect(new Set(channel.told.map(({ epoch }) => epoch)).size).toBe(5);
    await channel.byHand('unblock', 0, MANUAL);
    expect(channel.told[5]).toMatchObject({ kind: 'recovered', reason: 'manual', actor: 'ann' });
    channel.pass(10 * MINUTE_MS);
    await channel.recover(MANUAL);
    expect(channel.kinds().slice(5)).toEqual(['recovered', 'held']);
  });

  it('keeps the block key over the end of the block, so that it never disappears in between', async () => {
    const channel = new Twin(await bench());
    const keyEnds = () => channel.client.pexpiretime(channel.names[1]);
    await channel.record('FFF', MANUAL);
    expect(await keyEnds()).toBe(START + 2 * MINUTE_MS);
    channel.pass(MINUTE_MS + 700);
    await channel.recover(MANUAL);
    expect(await keyEnds()).toBe(channel.now + 2 * MINUTE_MS);
    expect(await channel.client.get(channel.names[1])).toBe('open');
    // However short a trial the same policy asks for, which never comes here.
    const both = policyOf({
      isReleasedByHand: true,
      halfOpen: { steps: [1_000], permits: 1, close: 1, waitMs: 10, reopens: false },
    });
    const other = new Twin(await bench());
    await other.record('FFF', both);
    expect(await other.client.pexpiretime(other.names[1])).toBe(START + 2 * MINUTE_MS);
  });

  it('reminds once, however long nobody looked', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFF', MANUAL);
    channel.pass(24 * 60 * MINUTE_MS);
    await channel.recover(MANUAL);
    await channel.recover(MANUAL);
    expect(channel.kinds()).toEqual(['blocked', 'extended']);
    expect(channel.told[1]).toMatchObject({ at: channel.now, until: channel.now + MINUTE_MS });
  });

  it('renews in nobody’s name, also a block that somebody set by hand', async () => {
    const channel = new Twin(await bench());
    await channel.byHand('block', 5_000, MANUAL);
    channel.pass(5_000);
    await channel.recover(MANUAL);
    expect(channel.told[1]).toMatchObject({ kind: 'extended', reason: 'awaits-release' });
    expect(channel.told[1]).not.toHaveProperty('actor');
    expect(channel.told[1]).not.toHaveProperty('note');
  });

  it('is found by an outcome too, which is not judged', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFF', MANUAL);
    channel.pass(MINUTE_MS + 1);
    expect(await channel.record('SS', MANUAL)).toMatchObject({ blockedDropped: 2, blocked: true, pushed: 1 });
  });

  it('does not hold what a third party asked for, nor what mode observe would have blocked', async () => {
    const policy = policyOf({ isReleasedByHand: true, rateLimit: { minMs: 1_000, maxMs: 60_000 } });
    const paused = new Twin(await bench());
    await paused.record('W', policy, { retryAfterMs: 5_000 });
    paused.pass(5_000);
    await paused.recover(policy);
    expect(paused.kinds()).toEqual(['paused', 'resumed']);
    const shadow = new Twin(await bench());
    await shadow.record('FFF', { ...MANUAL, mode: 'observe' });
    shadow.pass(MINUTE_MS);
    await shadow.recover({ ...MANUAL, mode: 'observe' });
    expect(await shadow.view()).toMatchObject({ shadow: 'closed' });
  });

  it('takes over a trial that runs when the rules begin to ask for it, at once and at its deadline alike', async () => {
    const trying = policyOf({ halfOpen: { steps: [0], permits: 1, close: 3, waitMs: MINUTE_MS, reopens: false } });
    for (const what of ['a good call', 'the deadline']) {
      const channel = new Twin(await bench());
      await channel.record('FFF', trying);
      channel.pass(MINUTE_MS);
      await channel.recover(trying);
      channel.pass(what === 'the deadline' ? MINUTE_MS : 1_000);
      if (what === 'a good call')
        expect(await channel.record('S', MANUAL)).toMatchObject({ blocked: true, counted: 0 });
      else await channel.recover(MANUAL);
      expect(channel.told.at(-1)).toMatchObject({
        ...{ kind: 'extended', reason: 'awaits-release', from: 'half-open', to: 'open', trips: 1, blockedAt: START },
        until: channel.now + MINUTE_MS,
      });
      expect(await channel.client.get(channel.names[1])).toBe('open');
    }
  });

  it('hides nothing for longer in mode observe', async () => {
    const observed = policyOf({ isReleasedByHand: true, mode: 'observe' });
    const channel = new Twin(await bench());
    await channel.record('FFF', MANUAL);
    channel.pass(MINUTE_MS);
    await channel.recover(observed);
    expect(channel.kinds()).toEqual(['blocked', 'recovered']);
    const trying = policyOf({ halfOpen: { steps: [0], permits: 1, close: 1, waitMs: MINUTE_MS, reopens: false } });
    const other = new Twin(await bench());
    await other.record('FFF', trying);
    other.pass(MINUTE_MS);
    await other.recover(trying);
    other.pass(MINUTE_MS);
    await other.recover(observed);
    expect(other.kinds()).toEqual(['blocked', 'half-open', 'recovered']);
  });

  it('follows the rules of the moment in which the block ends', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFF', policyOf({}));
    channel.pass(MINUTE_MS);
    await channel.recover(MANUAL);
    channel.pass(MINUTE_MS);
    await channel.recover(policyOf({}));
    expect(channel.kinds()).toEqual(['blocked', 'extended', 'recovered']);
  });
});

describe('jitter', () => {
  const block = { forMs: 60_000, growth: 2, maxMs: 100_000, jitter: 0.2 };

  it('lengthens or shortens a block by its share at the most, and never beyond the longest', () => {
    const lengths = Array.from({ length: 10_000 }, (_, i) => blockMs(block, { trips: 1 }, START + i));
    expect(Math.min(...lengths)).toBeGreaterThanOrEqual(48_000);
    expect(Math.min(...lengths)).toBeLessThan(48_100);
    expect(Math.max(...lengths)).toBeLessThanOrEqual(72_000);
    expect(Math.max(...lengths)).toBeGreaterThan(71_900);
    const longest = Array.from({ length: 1_000 }, (_, i) => blockMs(block, { trips: 4 }, START + i));
    expect(Math.max(...longest)).toBe(100_000);
    expect(Math.min(...longest)).toBeGreaterThanOrEqual(80_000);
  });

  it('spreads channels that were blocked within a second, or at the same moment of different minutes, evenly', () => {
    for (const apartMs of [1, 7, 1_000, 60_000]) {
      const tenths = new Array<number>(10).fill(0);
      for (let i = 0; i < 1_000; i += 1) {
        const share = (blockMs(block, { trips: 1 }, START + i * apartMs) - 48_000) / 24_000;
        tenths[Math.min(9, Math.floor(share * 10))]! += 1;
      }
      expect(Math.min(...tenths), `${apartMs} ms apart: ${tenths.join(' ')}`).toBeGreaterThan(50);
      expect(Math.max(...tenths), `${apartMs} ms apart: ${tenths.join(' ')}`).toBeLessThan(150);
    }
  });

  it('is drawn once: a batch that is read again finds the same block, and script and model agree on every length', async () => {
    const policy = policyOf({ jitter: 0.5, growth: 1.3, maxMs: 3_600_000 });
    const channel = new Twin(await bench());
    for (let i = 0; i < 10; i += 1) {
      const batch = batchOf('FFF');
      await channel.send(batch, policy);
      const { until, at, trips } = channel.told.at(-1)!;
      expect(until - at).toBe(blockMs(policy.block, { trips }, channel.told.at(-1)!.epoch));
      expect(await channel.send(batch, policy)).toMatchObject({ pushed: 0, blocked: true });
      expect(await channel.client.pexpiretime(channel.names[1])).toBe(until);
      channel.pass(until - channel.now + 1);
      await channel.recover(policy);
      channel.pass(1);
    }
    expect(new Set(channel.told.filter(({ to }) => to === 'open').map(({ until, at }) => until - at)).size).toBe(10);
  });
});
