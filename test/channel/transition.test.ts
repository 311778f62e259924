import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { override } from '../../src/channel/override.js';
import { recover } from '../../src/channel/recover.js';
import type { Transition } from '../../src/domain/transition.js';
import { until } from '../support/wait.js';
import { batchOf, bench, C10, channelOn, FRESH_MS, policyOf, START, Twin } from './support.js';

describe('a transition as it leaves the script', () => {
  it('holds whole numbers only, none cut and none in the form 1e+15, up to the longest block that rules allow', async () => {
    const env = await bench();
    const channel = channelOn(env);
    const year = 366 * 86_400_000;
    const { outbox } = await channel.record('F', policyOf({ size: 1, rate: 100, forMs: year, maxMs: year }));
    const [raw] = await env.client.lrange(channel.names[4], 0, -1);
    expect(raw).not.toMatch(/e\+|\.\d/i);
    const [block] = outbox;
    expect(block!.until - block!.at).toBe(year);
    expect(await env.client.pexpiretime(channel.names[1])).toBe(block!.until);
    const fields = await env.client.hgetall(channel.names[2]);
    for (const name of ['epoch', 'since', 'until', 'block', 'keyUntil', 'last']) {
      expect(fields[name], name).toMatch(/^\d{13}$/);
    }
    expect(fields).toMatchObject({ v: '1', state: 'open', until: String(block!.until), epoch: String(block!.epoch) });
  });

  it('holds a block by hand of ten thousand years to the millisecond', async () => {
    const env = await bench();
    const forMs = 315_576_000_000_001;
    const hand = { action: 'block', forMs, actor: 'ann', note: '' } as const;
    const { until: ends, nowMs, dueAt, outbox } = await override(env.client, env.keys, 'C', C10, FRESH_MS, hand);
    expect(ends - nowMs).toBe(forMs);
    expect([dueAt, outbox[0]!.until, await env.client.pexpiretime(env.keys.blocked('C'))]).toEqual([ends, ends, ends]);
    expect((await recover(env.client, env.keys, 'C', C10, FRESH_MS)).pushed).toBe(0);
  });

  it('grows a block with each relapse to its cap', async () => {
    const channel = new Twin(await bench());
    const policy = policyOf({ size: 1, rate: 100, forMs: 1_000, growth: 3, maxMs: 10_000, holdMs: 60_000 });
    const lengths = [];
    for (let i = 0; i < 5; i += 1) {
      await channel.record('F', policy);
      const { until: ends, at } = channel.told.at(-1)!;
      lengths.push(ends - at);
      channel.now = ends;
      await channel.recover(policy);
      channel.pass(1);
    }
    expect(lengths).toEqual([1_000, 3_000, 9_000, 10_000, 10_000]);
  });

  it('never grows a block into infinity, and never cuts its first length to the cap', async () => {
    const env = await bench();
    const channel = channelOn(env);
    const policy = policyOf({ size: 1, rate: 100, forMs: 1_000, growth: 100, maxMs: 90_000 });
    // In the hold of the thousandth block: 100 to the power of 999 is no number any more.
    const hold = Date.now() + 60_000;
    await env.client.hset(channel.names[2], {
      state: 'closed',
      since: 1,
      hold,
      trips: 999,
      incident: '5',
      epoch: 5,
      block: 5,
    });
    const { outbox } = await channel.record('F', policy);
    expect(outbox).toMatchObject([{ kind: 'relapsed', trips: 1_000, incident: '5' }]);
    expect(outbox[0]!.until - outbox[0]!.at).toBe(90_000);
    const other = channelOn(env, 'D');
    const long = await other.record('F', policyOf({ size: 1, rate: 100, forMs: 120_000, growth: 2, maxMs: 1_000 }));
    expect(long.outbox[0]!.until - long.outbox[0]!.at).toBe(120_000);
  });

  it('7.07 of a block without evidence has an empty list, not an object', async () => {
    const env = await bench();
    const { outbox } = await channelOn(env).send({ ...batchOf('FFF'), evidence: [] });
    expect(outbox[0]!.evidence).toEqual([]);
    const [raw] = await env.client.lrange(env.keys.channel('C')[4], 0, -1);
    expect(raw).not.toContain('{}');
  });

  it('says what decided: size, recorded, succeeded, threshold, and the failures of this window alone', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFF');
    channel.pass(60_001);
    await channel.record('FSF');
    await channel.record('SSF');
    expect(channel.told.at(-1)).toMatchObject({
      ...{ kind: 'relapsed', size: 10, recorded: 6, succeeded: 3, threshold: 8_000 },
      evidence: [
        { at: 0, code: 'E0' },
        { at: 1, code: 'E1' },
        { at: 0, code: 'E0' },
      ],
    });
  });

  it('carries actor and note as they were typed', async () => {
    const env = await bench();
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: 'grapheme', minLength: 1 }),
        fc.string({ unit: 'grapheme', minLength: 1 }),
        async (actor, note) => {
          const hand = { action: 'block', forMs: 60_000, actor, note } as const;
          const { outbox } = await override(env.client, env.keys, 'C', C10, FRESH_MS, hand);
          expect(outbox.at(-1)).toMatchObject({ actor, note });
        },
      ),
      { numRuns: 60 },
    );
  });
});

const redisMs = ([seconds, micros]: number[]) => Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);

describe('an epoch', () => {
  const rising = (told: readonly Transition[]) => told.every(({ epoch }, i) => i === 0 || epoch > told[i - 1]!.epoch);

  it('rises with every transition, also of one millisecond', async () => {
    const channel = new Twin(await bench());
    for (let i = 0; i < 30; i += 1) await channel.byHand(i % 2 === 0 ? 'block' : 'unblock', i % 2 === 0 ? 5_000 : 0);
    expect(channel.told.length).toBe(30);
    expect(rising(channel.told)).toBe(true);
    expect(channel.told.at(-1)!.epoch).toBe(START + 29);
  });

  it('rises over the loss of the state: expired, deleted, or gone with everything', async () => {
    const env = await bench();
    const channel = channelOn(env);
    const told: Transition[] = [];
    for (let i = 0; i < 5; i += 1) {
      const { outbox } = await channel.record('FFF');
      told.push(outbox[0]!);
      await env.client.del(...channel.names);
      await until(async () => redisMs(await env.client.time()) > outbox[0]!.epoch, {
        what: 'the next millisecond',
        intervalMs: 1,
      });
    }
    expect(told.map(({ kind }) => kind)).toEqual(new Array(5).fill('blocked'));
    expect(rising(told)).toBe(true);
    expect(new Set(told.map(({ incident }) => incident)).size).toBe(5);
  });

  it('of an end told from a job’s data lies above the block’s, whatever the clock', async () => {
    const env = await bench();
    // A block decided under a clock that was ahead: its epoch is still in the future.
    const ahead = Date.now() + 3_600_000;
    const end = {
      channel: 'C',
      block: ahead,
      until: ahead + 60_000,
      incident: String(ahead),
      trips: 3,
      blockedAt: ahead,
    };
    const { outbox } = await recover(env.client, env.keys, 'C', C10, FRESH_MS, end);
    expect(outbox).toMatchObject([
      { kind: 'recovered', reason: 'state lost', epoch: ahead + 1, block: ahead, trips: 3 },
    ]);
    const next = await override(env.client, env.keys, 'C', C10, FRESH_MS, {
      action: 'block',
      forMs: 0,
      actor: '',
      note: '',
    });
    expect(next.outbox.at(-1)!.epoch).toBe(ahead + 2);
  });
});

describe('what a channel leaves in Redis', () => {
  it('keeps the last 20 failures of a window as evidence, also when they come one at a time', async () => {
    const env = await bench();
    const channel = channelOn(env);
    const policy = policyOf({ size: 1_000, rate: 97.5 });
    for (let i = 0; i < 25; i += 1) {
      await channel.send({ ...batchOf('F'), evidence: [JSON.stringify({ at: i })] }, policy);
    }
    expect(await env.client.llen(channel.names[5])).toBe(20);
    const { outbox } = await channel.send({ ...batchOf('F'), evidence: [JSON.stringify({ at: 25 })] }, policy);
    expect(outbox[0]!.evidence).toEqual(Array.from({ length: 20 }, (_, i) => ({ at: i + 6 })));
  });

  it('keeps the evidence of a block to its end, although the end was moved, and gives it a time to go afterwards', async () => {
    const env = await bench();
    const channel = channelOn(env);
    const evidence = channel.names[5];
    await channel.record('FFF');
    const hand = { action: 'block', actor: 'ann', note: '' } as const;
    const week = 7 * 86_400_000;
    await override(env.client, env.keys, 'C', C10, FRESH_MS, { ...hand, forMs: week });
    expect(await env.client.pttl(evidence)).toBeGreaterThan(week);
    await env.client.pexpire(channel.names[1], 2 * week);
    await recover(env.client, env.keys, 'C', C10, FRESH_MS);
    expect(await env.client.pttl(evidence)).toBeGreaterThan(2 * week);
    await override(env.client, env.keys, 'C', C10, FRESH_MS, { ...hand, forMs: -1 });
    expect(await env.client.pttl(evidence)).toBe(-1);
    await override(env.client, env.keys, 'C', C10, FRESH_MS, { ...hand, action: 'unblock', forMs: 0 });
    expect(await env.client.pttl(evidence)).toBeGreaterThan(0);
    expect(await env.client.llen(evidence)).toBe(3);
  });

  it('has a time to go: every key but the state while it is open, and the outbox until it is told', async () => {
    const env = await bench();
    const channel = channelOn(env);
    const [health, blocked, state, fence, outbox, evidence] = channel.names;
    await channel.record('FF');
    for (const key of [health, fence, evidence]) expect(await env.client.pttl(key), key).toBeGreaterThan(0);
    await channel.record('F');
    for (const key of [blocked, fence, evidence]) expect(await env.client.pttl(key), key).toBeGreaterThan(0);
    for (const key of [state, outbox]) expect(await env.client.pttl(key), key).toBe(-1);
    await override(env.client, env.keys, 'C', C10, FRESH_MS, { action: 'unblock', forMs: 0, actor: '', note: '' });
    const day = 86_400_000;
    const stateTtl = await env.client.pttl(state);
    expect(stateTtl).toBeGreaterThan(day);
    expect(stateTtl).toBeLessThanOrEqual(day + 60_000);
    expect(await env.client.exists(health, blocked)).toBe(0);
  });
});
