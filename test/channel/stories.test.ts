import { describe, expect, it } from 'vitest';
import { windowTtlMs } from '../../src/domain/policy.js';
import { until } from '../support/wait.js';
import { bench, C10, channelOn, policyOf, START, Twin } from './support.js';

describe('a channel, as the script and the model judge it', () => {
  it('1.08 blocks once in a thousand failures, and those that come during the block begin no second one', async () => {
    const channel = new Twin(await bench());
    const whole = await channel.record('F'.repeat(1_000));
    expect(whole).toMatchObject({ blocked: true, pushed: 1, counted: 3, blockedDropped: 997 });
    for (let i = 0; i < 20; i += 1) {
      channel.pass(1_000);
      expect(await channel.record('F'.repeat(50))).toMatchObject({ pushed: 0, blockedDropped: 50 });
    }
    expect(channel.kinds()).toEqual(['blocked']);
    expect(await channel.client.pexpiretime(channel.names[1])).toBe(START + 60_000);
  });

  it('1.09 begins with an empty window after a block, so that it takes as many failures as the first time', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFF');
    channel.pass(60_001);
    expect(await channel.record('F')).toMatchObject({ blocked: false, recorded: 1 });
    expect(await channel.record('F')).toMatchObject({ blocked: false, recorded: 2 });
    expect(await channel.record('F')).toMatchObject({ blocked: true, recorded: 3 });
    expect(channel.kinds()).toEqual(['blocked', 'recovered', 'relapsed']);
    expect(channel.told.at(-1)).toMatchObject({ trips: 2, incident: channel.told[0]?.incident });
  });

  it('1.11 forgets the oldest outcome, so that failures spread over more than N never block', async () => {
    const channel = new Twin(await bench());
    for (let i = 0; i < 30; i += 1) {
      expect(await channel.record('FSSSSSSS')).toMatchObject({ blocked: false });
    }
    // The last ten are SSSSSSS F S F, then SSSSSS F S F F.
    expect(await channel.record('FSF')).toMatchObject({ blocked: false });
    expect(await channel.record('F')).toMatchObject({ blocked: true });
  });

  it('1.12 never holds more than N outcomes, however long the batch and whatever lay there before', async () => {
    const channel = new Twin(await bench());
    const policy = policyOf({ rate: 0 });
    for (const story of ['F', 'S'.repeat(8), 'F', 'S', `F${'SF'.repeat(400)}`, 'S'.repeat(9)]) {
      await channel.record(story, policy);
      expect((await channel.view()).window.length).toBeLessThanOrEqual(10);
    }
    expect((await channel.view()).window).toBe('0111111111');
    await channel.record('S', policy);
    expect((await channel.view()).window).toBe('');
  });

  it('1.12 counts what 200 workers at once record, each in its own partition, exactly as one would', async () => {
    const env = await bench();
    const channel = channelOn(env);
    const policy = policyOf({ size: 1_000, rate: 0 });
    await channel.record('F', policy);
    const opened = Number((await env.client.time())[0]) * 1_000;
    await until(async () => Number((await env.client.time())[0]) * 1_000 > opened, { what: 'the next second' });
    const stories = Array.from({ length: 200 }, (_, i) => ['F', 'S', 'FS', 'SSF'][i % 4]!);
    await Promise.all(stories.map((story, i) => channel.record(story, policy, { partition: `test/log/${i}/0` })));
    const slots = await env.client.lrange(channel.names[0], 0, -1);
    const joined = `F${stories.join('')}`;
    expect(slots.length).toBe(joined.length);
    expect(slots.filter((slot) => slot === '0').length).toBe(joined.replaceAll('S', '').length);
  });

  it('1.14 remembers failures that come seldom: the window outlives their distance, so that a quiet failing channel is blocked', async () => {
    const channel = new Twin(await bench());
    await channel.record('F');
    channel.pass(61_000);
    await channel.record('F');
    channel.pass(61_000);
    expect(await channel.record('F')).toMatchObject({ blocked: true });
  });

  it('1.14 forgets a window that nobody wrote to for the length of a block and half an hour', async () => {
    const channel = new Twin(await bench());
    await channel.record('FF');
    channel.pass(windowTtlMs(C10));
    expect(await channel.record('F')).toMatchObject({ blocked: false, recorded: 1 });
  });

  it('1.15 lets a write renew the window’s life, and the verdict depend on size and threshold alone', async () => {
    const channel = new Twin(await bench());
    const policy = policyOf({ size: 5, rate: 60, forMs: 30_000 });
    const verdicts = [];
    for (const story of ['F', 'F', 'F']) {
      verdicts.push((await channel.record(story, policy)).blocked);
      if (story === 'F' && verdicts.length < 3) {
        expect(await channel.client.pexpiretime(channel.names[0])).toBe(channel.now + windowTtlMs(policy));
      }
      channel.pass(windowTtlMs(policy) - 1);
    }
    expect(verdicts).toEqual([false, false, true]);
    // Size and block length changed places: another verdict, so they are not mixed up.
    const other = new Twin(await bench());
    expect(await other.record('FFFFF', policyOf({ size: 30, rate: 60, forMs: 5_000 }))).toMatchObject({
      blocked: false,
    });
  });

  it('1.17 keeps blocks to the millisecond: 1,500 ms is not 2 s, and half a second is not none', async () => {
    const env = await bench();
    for (const forMs of [500, 1_500]) {
      for (let i = 0; i < 50; i += 1) {
        const channel = channelOn(env, `C${forMs}-${i}`);
        const { outbox } = await channel.record('FFF', policyOf({ forMs }));
        const { at, until: ends } = outbox[0]!;
        expect(ends - at).toBe(forMs);
        const key = await env.client.pexpiretime(channel.names[1]);
        if (key !== -2) expect(key).toBe(ends);
      }
    }
    const channel = channelOn(env, 'measured');
    const { outbox } = await channel.record('FFF', policyOf({ forMs: 500 }));
    await until(async () => (await env.client.exists(channel.names[1])) === 0, {
      what: 'the block to end',
      intervalMs: 1,
    });
    const [seconds, micros] = await env.client.time();
    const lasted = Number(seconds) * 1_000 + Number(micros) / 1_000 - outbox[0]!.at;
    expect(lasted).toBeGreaterThanOrEqual(500);
    expect(lasted).toBeLessThan(1_000);
  });

  it('1.19 lets the whole traffic back after a block, and blocks again after exactly the failures that it takes', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFF');
    channel.pass(60_001);
    const result = await channel.record('F'.repeat(500));
    expect(result).toMatchObject({ counted: 3, blockedDropped: 497, blocked: true });
    expect(channel.kinds()).toEqual(['blocked', 'recovered', 'relapsed']);
  });

  it('1.20 drops outcomes of calls that began before or during the block, when they are read after it', async () => {
    const channel = new Twin(await bench());
    const before = channel.now - 1_000;
    await channel.record('FFF');
    const during = channel.now + 30_000;
    channel.pass(60_000);
    await channel.recover();
    channel.pass(500);
    expect(await channel.record('F'.repeat(10), C10, { arrivalMs: before })).toMatchObject({ late: 10, counted: 0 });
    expect(await channel.record('F'.repeat(10), C10, { arrivalMs: during })).toMatchObject({ late: 10, counted: 0 });
    // Ended now, begun before: it says nothing about the channel as it is now.
    expect(await channel.record('F', C10, { duration: 600 })).toMatchObject({ late: 1, counted: 0 });
    expect((await channel.view()).window).toBe('');
    expect(await channel.record('F', C10, { duration: 499 })).toMatchObject({ late: 0, counted: 1 });
  });

  it('1.21 lets a success during a block neither end nor shorten it', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFF');
    channel.pass(10_000);
    expect(await channel.record('S'.repeat(100))).toMatchObject({ blocked: true, blockedDropped: 100 });
    expect(await channel.client.pexpiretime(channel.names[1])).toBe(START + 60_000);
  });

  it('1.27 knows no minutes: a hundred failures in second 59 and one in second 61 make one block, to its own end', async () => {
    const channel = new Twin(await bench());
    channel.pass(59_000);
    const blockedAt = channel.now;
    await channel.record('F'.repeat(100));
    channel.pass(2_000);
    await channel.record('F');
    for (const at of [1_000, 30_000, 59_999]) {
      channel.now = blockedAt + at;
      await channel.recover();
      expect(await channel.view()).toMatchObject({ blocked: true });
    }
    channel.now = blockedAt + 60_000;
    await channel.recover();
    expect(channel.kinds()).toEqual(['blocked', 'recovered']);
  });

  it('2.06 does not block for one failure among many successes, and is healthy again after them', async () => {
    const channel = new Twin(await bench());
    expect(await channel.record(`F${'S'.repeat(9)}`)).toMatchObject({ blocked: false, recorded: 10, succeeded: 9 });
    await channel.record('S');
    expect((await channel.view()).window).toBe('');
    expect(await channel.client.exists(channel.names[0])).toBe(0);
  });

  it('drops what is older than freshFor, and clips and counts what arrives from the future', async () => {
    const channel = new Twin(await bench());
    expect(await channel.record('FFFF', C10, { ago: 300_001 })).toMatchObject({ stale: 4, counted: 0 });
    expect(await channel.record('F', C10, { ago: 300_000 })).toMatchObject({ stale: 0, counted: 1 });
    expect(await channel.record('F', C10, { arrivalMs: channel.now + 5_000 })).toMatchObject({
      clipped: 1,
      counted: 1,
    });
  });

  it('7.05 knows how to begin: the first outcomes ever, a success or a failure, find no key at all', async () => {
    const env = await bench();
    expect((await channelOn(env, 'a').record('S')).result).toMatchObject({ recorded: 0, blocked: false });
    expect(await env.client.exists(...env.keys.channel('a'))).toBe(0);
    expect((await channelOn(env, 'b').record('F')).result).toMatchObject({ recorded: 1, succeeded: 0 });
  });
});
