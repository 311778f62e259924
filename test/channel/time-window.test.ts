import { describe, expect, it } from 'vitest';
import { bench, policyOf, Twin } from './support.js';

/** Ten seconds in ten slots, judged from five calls on, 60 %. */
const T10 = policyOf({ window: { kind: 'time', spanMs: 10_000, slots: 10, minCalls: 5 }, rate: 60 });

describe('a time window, in script and model alike', () => {
  it('is not judged below its least calls, however many of them failed; then any failure below the threshold blocks', async () => {
    const channel = new Twin(await bench());
    expect(await channel.record('FFFF', T10)).toMatchObject({ blocked: false, recorded: 4, succeeded: 0 });
    expect(await channel.record('F', T10)).toMatchObject({ blocked: true, recorded: 5, succeeded: 0 });
    expect(channel.told).toMatchObject([{ kind: 'blocked', size: 5, recorded: 5, succeeded: 0, threshold: 6_000 }]);
  });

  it('counts only what was called: equality does not block, one failure more does', async () => {
    const channel = new Twin(await bench());
    expect(await channel.record('SSSSSSFFFF', T10)).toMatchObject({ blocked: false, recorded: 10, succeeded: 6 });
    expect(await channel.record('F', T10)).toMatchObject({ blocked: true, recorded: 11 });
  });

  it('a success never blocks, though it may be what completes the least calls', async () => {
    const channel = new Twin(await bench());
    expect(await channel.record('FFFFS', T10)).toMatchObject({ blocked: false, recorded: 5, succeeded: 1 });
  });

  it('forgets a slot when it lies a span before the newest end, and nothing merely because time goes by', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFFF', T10);
    channel.pass(9_000);
    expect(await channel.record('S', T10)).toMatchObject({ recorded: 5, succeeded: 1 });
    channel.pass(60_000);
    // Nobody called for a minute: the window is as it was, until a newer end pushes its slots out.
    expect((await channel.view()).stored).toMatchObject({ counts: { size: 2 } });
    expect(await channel.record('F', T10)).toMatchObject({ blocked: false, recorded: 1, succeeded: 0 });
  });

  it('puts a backlog that is read at one go into the seconds in which its calls ended', async () => {
    const channel = new Twin(await bench());
    channel.pass(120_000);
    // One failure every 11 seconds: never two within the span, so never five calls. Read at one go, two minutes late.
    for (let i = 0; i < 10; i += 1) {
      const seen = await channel.record('F', T10, { arrivalMs: channel.now, ago: 115_000 - i * 11_000 });
      expect(seen).toMatchObject({ blocked: false, recorded: 1 });
    }
    // The same ten within a second block.
    const burst = await channel.record('F'.repeat(10), T10, { arrivalMs: channel.now, ago: 500 });
    expect(burst).toMatchObject({ blocked: true });
  });

  it('drops as late what ended before the window began, and counts it', async () => {
    const channel = new Twin(await bench());
    channel.pass(60_000);
    await channel.record('SSSSS', T10);
    expect(await channel.record('FFFFF', T10, { ago: 30_000 })).toMatchObject({ late: 5, counted: 0, recorded: 5 });
  });

  it('remembers a healthy channel, and counts a replay of it once', async () => {
    const one = await bench();
    const channel = new Twin(one);
    const seen = await channel.record('SSSS', T10);
    expect(seen).toMatchObject({ counted: 4, recorded: 4, succeeded: 4 });
    expect(await one.client.hget(channel.names[6], '@length')).toBe('1000');
    expect(await one.client.exists(channel.names[0])).toBe(0);
  });

  it('a change of kind deletes the keys of the other kind, in both directions', async () => {
    const one = await bench();
    const channel = new Twin(one);
    const N10 = policyOf({});
    await channel.record('F', N10);
    await channel.record('S', T10);
    expect([await one.client.exists(channel.names[0]), await one.client.exists(channel.names[6])]).toEqual([0, 1]);
    await channel.record('F', N10);
    expect([await one.client.exists(channel.names[0]), await one.client.exists(channel.names[6])]).toEqual([1, 0]);
  });

  it('begins anew when its slots get another length', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFFF', T10);
    const wider = policyOf({ window: { kind: 'time', spanMs: 60_000, slots: 10, minCalls: 5 }, rate: 60 });
    expect(await channel.record('F', wider)).toMatchObject({ blocked: false, recorded: 1 });
  });
});
