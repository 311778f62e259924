import { describe, expect, it } from 'vitest';
import { bench, C10, policyOf, START, Twin } from './support.js';

describe('rules that change under a running channel', () => {
  it('N smaller keeps the newest outcomes', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFSSSSF', policyOf({ rate: 0 }));
    const smaller = policyOf({ size: 4, rate: 50 });
    expect(await channel.record('S', smaller)).toMatchObject({ recorded: 4, succeeded: 3, blocked: false });
    expect((await channel.view()).window).toBe('1101');
    expect(await channel.record('F', smaller)).toMatchObject({ blocked: false });
    expect(await channel.record('F', smaller)).toMatchObject({ blocked: true, recorded: 4, succeeded: 1 });
  });

  it('N smaller does not block by itself, only at the next failure', async () => {
    const channel = new Twin(await bench());
    await channel.record('FF');
    const smaller = policyOf({ size: 2, rate: 100 });
    await channel.recover(smaller);
    expect(await channel.record('S', smaller)).toMatchObject({ blocked: false });
    expect(await channel.record('F', smaller)).toMatchObject({ blocked: true });
  });

  it('N larger counts the new slots as successes', async () => {
    const channel = new Twin(await bench());
    await channel.record('FF', policyOf({ size: 5, rate: 60 }));
    const larger = policyOf({ size: 10, rate: 60 });
    expect(await channel.record('FF', larger)).toMatchObject({ blocked: false, recorded: 4 });
    expect(await channel.record('F', larger)).toMatchObject({ blocked: true, recorded: 5 });
  });

  it.each([
    ['shorter', 5_000],
    ['longer', 600_000],
  ])('2.11 a %s block in the rules leaves a block that runs as it is', async (_what, forMs) => {
    const channel = new Twin(await bench());
    await channel.record('FFF');
    channel.pass(10_000);
    const changed = policyOf({ forMs });
    expect(await channel.record('FFF', changed)).toMatchObject({ blockedDropped: 3, pushed: 0 });
    await channel.recover(changed);
    expect(await channel.view()).toMatchObject({ until: START + 60_000 });
    expect(await channel.client.pexpiretime(channel.names[1])).toBe(START + 60_000);
    channel.now = START + 60_000;
    await channel.recover(changed);
    channel.pass(1);
    await channel.record('FFF', changed);
    expect(channel.kinds()).toEqual(['blocked', 'recovered', 'relapsed']);
    expect(channel.told.at(-1)).toMatchObject({ until: channel.now + forMs });
  });

  it('mode off while blocked: the block runs to its end, and its end is told', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFF');
    const off = policyOf({ mode: 'off' });
    channel.pass(30_000);
    await channel.recover(off);
    expect(await channel.view()).toMatchObject({ blocked: true, until: START + 60_000 });
    channel.pass(30_000);
    await channel.recover(off);
    expect(channel.kinds()).toEqual(['blocked', 'recovered']);
    channel.pass(1);
    expect(await channel.record('FF')).toMatchObject({ recorded: 2, blocked: false });
  });

  it('on, observe, on: what observe would have blocked hides nothing, and its end leaves the window of mode on alone', async () => {
    const channel = new Twin(await bench());
    const observe = policyOf({ mode: 'observe' });
    await channel.record('F');
    expect(await channel.record('FF', observe)).toMatchObject({ blocked: false, pushed: 1, recorded: 3 });
    expect(channel.kinds()).toEqual(['observed']);
    channel.pass(50_000);
    expect(await channel.record('FF')).toMatchObject({ blocked: false, recorded: 2 });
    channel.pass(10_001);
    expect(await channel.record('F')).toMatchObject({ blocked: true, recorded: 3 });
    expect(channel.kinds()).toEqual(['observed', 'blocked']);
    expect(channel.told[1]).toMatchObject({ trips: 1 });
  });

  it('on to observe while blocked: hidden to the end, then only observed', async () => {
    const channel = new Twin(await bench());
    const observe = policyOf({ mode: 'observe' });
    await channel.record('FFF');
    expect(await channel.record('FFF', observe)).toMatchObject({ blocked: true, blockedDropped: 3 });
    channel.pass(60_001);
    expect(await channel.record('FFF', observe)).toMatchObject({ blocked: false, counted: 3 });
    expect(channel.kinds()).toEqual(['blocked', 'recovered', 'observed']);
  });

  it('hold 0: no relapse and no "held", each block is an incident of its own', async () => {
    const channel = new Twin(await bench());
    const policy = policyOf({ holdMs: 0, growth: 2 });
    for (let i = 0; i < 3; i += 1) {
      await channel.record('FFF', policy);
      channel.pass(60_000);
      expect(await channel.recover(policy)).toBe(0);
      channel.pass(1);
    }
    expect(channel.kinds()).toEqual(['blocked', 'recovered', 'blocked', 'recovered', 'blocked', 'recovered']);
    const blocks = channel.told.filter(({ kind }) => kind === 'blocked');
    expect(new Set(blocks.map(({ incident }) => incident)).size).toBe(3);
    expect(blocks.every((block) => block.trips === 1 && block.until - block.at === 60_000)).toBe(true);
  });

  it('a hold that runs keeps its end when the rules change it', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFF');
    channel.pass(60_000);
    await channel.recover();
    expect(await channel.recover(policyOf({ holdMs: 0 }))).toBe(START + 120_000);
    channel.pass(60_000);
    expect(await channel.recover(policyOf({ holdMs: 999_999 }))).toBe(0);
    expect(channel.kinds()).toEqual(['blocked', 'recovered', 'held']);
    expect(channel.told.at(-1)).toMatchObject({ at: START + 120_000 });
  });
});

describe('mode observe', () => {
  const observe = policyOf({ mode: 'observe' });

  it('2.01 keeps the window, tells once per shadow incident, and never writes a block key', async () => {
    const channel = new Twin(await bench());
    expect(await channel.record('F'.repeat(100), observe)).toMatchObject({
      blocked: false,
      counted: 3,
      blockedDropped: 97,
    });
    for (let i = 0; i < 4; i += 1) {
      channel.pass(60_001);
      await channel.recover(observe);
      channel.pass(1);
      await channel.record('FFF', observe);
      expect(await channel.client.exists(channel.names[1])).toBe(0);
    }
    expect(channel.kinds()).toEqual(['observed']);
    // Both block and hold over: the next one is another incident.
    channel.pass(60_000);
    await channel.recover(observe);
    channel.pass(60_000);
    await channel.recover(observe);
    channel.pass(1);
    await channel.record('FFF', observe);
    expect(channel.kinds()).toEqual(['observed', 'observed']);
    expect(channel.told[0]!.incident).not.toBe(channel.told[1]!.incident);
  });

  it('judges what is late by the shadow’s own clock', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFF', observe);
    channel.pass(60_000);
    await channel.recover(observe);
    channel.pass(100);
    expect(await channel.record('FFF', observe, { duration: 100 })).toMatchObject({ late: 3, counted: 0 });
    expect(await channel.record('F', observe, { duration: 99 })).toMatchObject({ late: 0, counted: 1 });
    expect((await channel.view()).since).toBe(0);
  });
});

describe('the operator’s hand', () => {
  it('unblock is one transition, and judging resumes at once on an empty window', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFF');
    channel.pass(10_000);
    await channel.byHand('unblock');
    expect(channel.told.at(-1)).toMatchObject({ kind: 'recovered', reason: 'manual', actor: 'ann', note: 'because' });
    channel.pass(1);
    expect(await channel.record('FF')).toMatchObject({ blocked: false, recorded: 2 });
    expect(await channel.record('F')).toMatchObject({ blocked: true });
    expect(channel.kinds()).toEqual(['blocked', 'recovered', 'relapsed']);
  });

  it('unblock for a time holds the channel open whatever happens, then judges what begins after it, on an empty window', async () => {
    const channel = new Twin(await bench());
    await channel.record('FF');
    await channel.byHand('unblock', 30_000);
    channel.pass(1);
    expect(await channel.record('F'.repeat(100))).toMatchObject({ blocked: false, overridden: 100, counted: 0 });
    channel.pass(29_999 + 5_000);
    expect(await channel.record('FF', C10, { duration: 5_000 })).toMatchObject({ late: 2, counted: 0 });
    expect(await channel.record('F', C10, { duration: 4_999 })).toMatchObject({
      counted: 1,
      recorded: 1,
      blocked: false,
    });
    expect(channel.kinds()).toEqual(['forced', 'force-ended']);
  });

  it('block by hand ends a time held open, and goes on without end when asked to', async () => {
    const channel = new Twin(await bench());
    await channel.byHand('unblock', 3_600_000);
    await channel.byHand('block', -1);
    expect(channel.kinds()).toEqual(['forced', 'blocked']);
    expect(channel.told[1]).toMatchObject({ reason: 'manual', until: -1 });
    channel.pass(60_000);
    await channel.byHand('unblock');
    channel.pass(1);
    expect(await channel.record('FFF')).toMatchObject({ counted: 3, blocked: true });
    await channel.byHand('block', -1);
    channel.pass(30 * 86_400_000);
    expect(await channel.recover()).toBe(-1);
    expect(await channel.record('SSS')).toMatchObject({ blocked: true });
  });

  it('block by hand on a block that runs moves its end, either way, and keeps the incident', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFF');
    await channel.byHand('block', 600_000);
    await channel.byHand('block', 1_000);
    expect(channel.told).toMatchObject([
      { kind: 'blocked' },
      { kind: 'extended', until: START + 600_000, reason: 'manual', actor: 'ann' },
      { kind: 'shortened', until: START + 1_000 },
    ]);
    expect(new Set(channel.told.map(({ incident }) => incident)).size).toBe(1);
  });
});
