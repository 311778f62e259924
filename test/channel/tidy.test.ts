import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { record } from '../../src/channel/record.js';
import { tidyLog } from '../../src/channel/tidy.js';
import type { RecordResult } from '../../src/domain/batch.js';
import { ChannelModel } from '../../src/domain/channel-model.js';
import { Keys } from '../../src/redis/keys.js';
import { uniquePrefix } from '../support/redis.js';
import { ClockedChannel } from './clocked-channel.js';
import { batchOf, bench, channelOn, FRESH_MS, policyOf, START } from './support.js';

const SPAN_MS = 10_000;
const window = { kind: 'log', spanMs: SPAN_MS, minCalls: 3, maxEntries: 8 } as const;
const L = policyOf({ window, rate: 60, forMs: 30_000 });

/** A log of its own on the real server, with calls that ended so long ago, oldest first. */
async function logOf(ends: readonly [agoMs: number, result: '0' | '1' | '3'][]) {
  const env = await bench();
  const names = channelOn(env).names;
  const [seconds] = await env.client.time();
  const nowMs = Number(seconds) * 1_000;
  const count = (result: string) => ends.filter(([, each]) => each === result).length;
  await env.client.hset(names[6], { '@log': ends.length, '@newest': nowMs - ends.at(-1)![0] });
  await env.client.hset(names[6], { '@successes': count('1'), '@failures': count('0'), '@slow': count('3') });
  for (const [i, [agoMs, result]] of ends.entries())
    await env.client.zadd(names[7], nowMs - agoMs, `${String(i + 1).padStart(12, '0')}:${result}:${i}`);
  const tidy = (most = 100) => tidyLog(env.client, env.keys, 'C', { spanMs: SPAN_MS, freshForMs: FRESH_MS, most });
  const results = async () =>
    (await env.client.zrange(names[7], '0', '-1')).map((member) => member.split(':')[1]).join('');
  return { ...env, names, tidy, results };
}
const OLD = SPAN_MS + FRESH_MS;

describe('tidying a call log', () => {
  it('removes what ended longer ago than span and freshFor together, and keeps the counts right', async () => {
    const log = await logOf([
      [OLD + 5_000, '0'],
      [OLD + 4_000, '1'],
      [OLD + 3_000, '3'],
      [OLD + 2_000, '1'],
      [OLD - 5_000, '1'],
      [OLD - 6_000, '0'],
    ]);
    expect(await log.tidy()).toBe(4);
    expect(await log.results()).toBe('10');
    const counts = await log.client.hgetall(log.names[6]);
    expect(counts).toMatchObject({ '@successes': '1', '@failures': '1', '@slow': '0', '@log': '6' });
    expect(await log.tidy()).toBe(0);
  });

  it('is exact to the millisecond: a call goes when the oldest outcome that is still fresh ends a span after it', async () => {
    const env = await bench();
    const redis = env.client as ConstructorParameters<typeof ClockedChannel>[0];
    const script = new ClockedChannel(redis, env.keys, 'C', FRESH_MS);
    await script.record(L, batchOf('SSS'), START);
    expect(await script.tidy(START + OLD - 1, SPAN_MS, 100)).toBe(0);
    expect(await script.tidy(START + OLD, SPAN_MS, 100)).toBe(3);
  });

  it('leaves the last failure or slow call, so that the next outcome finds the log as open as it was', async () => {
    const log = await logOf([
      [OLD + 5_000, '0'],
      [OLD + 4_000, '1'],
      [OLD + 3_000, '3'],
      [OLD + 2_000, '1'],
    ]);
    expect(await log.tidy()).toBe(3);
    expect(await log.results()).toBe('3');
    expect(await log.client.hgetall(log.names[6])).toMatchObject({ '@successes': '0', '@failures': '0', '@slow': '1' });
  });

  it('removes no more at one go than it is asked to, and leaves a log whose counts do not fit to the next outcome', async () => {
    const log = await logOf(Array.from({ length: 9 }, (_, i) => [OLD + 9_000 - i, '1']));
    expect(await log.tidy(4)).toBe(4);
    await log.client.zadd(log.names[7], 1, 'foreign');
    expect(await log.tidy()).toBe(0);
    expect(await log.client.zcard(log.names[7])).toBe(6);
    await log.client.del(log.names[6]);
    expect(await log.tidy()).toBe(0);
  });

  it('leaves expiry alone, and a log that it has emptied is gone on with', async () => {
    const env = await bench();
    const channel = channelOn(env);
    await channel.record('SSS', L);
    const expires = await env.client.pexpiretime(channel.names[6]);
    // As if all had ended long ago.
    for (const member of await env.client.zrange(channel.names[7], '0', '-1'))
      await env.client.zadd(channel.names[7], 'XX', 1, member);
    expect(await tidyLog(env.client, env.keys, 'C', { spanMs: SPAN_MS, freshForMs: FRESH_MS, most: 100 })).toBe(3);
    expect(await env.client.pexpiretime(channel.names[6])).toBe(expires);
    const { result } = await record(env.client, env.keys, 'C', L, FRESH_MS, batchOf('SF'));
    expect(result).toMatchObject({ counted: 2, recorded: 2, succeeded: 1 });
    expect(await env.client.zcard(channel.names[7])).toBe(2);
  });

  it('at whatever moment, changes no verdict, no transition and no count', async () => {
    const env = await bench();
    const freshForMs = 20_000;
    const rules = { ...L, slow: { overMs: 1 }, minSources: 2, maxFailures: 3, maxConsecutiveFailures: 4 };
    const step = fc.record({
      story: fc.stringMatching(/^[FSL]{1,4}$/),
      source: fc.constantFrom('a', 'a', 'b'),
      ago: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 25_000 })),
      wait: fc.oneof(fc.integer({ min: 0, max: 4_000 }), fc.integer({ min: 0, max: 45_000 })),
      tidies: fc.constantFrom(0, 1, 2, 100),
    });
    let removed = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 20 }), async (steps) => {
        const redis = env.client as ConstructorParameters<typeof ClockedChannel>[0];
        const script = new ClockedChannel(redis, new Keys(uniquePrefix()), 'C', freshForMs);
        const model = new ChannelModel('C', freshForMs);
        let now = START;
        for (const { story, source, ago, wait, tidies } of steps) {
          now += wait;
          if (tidies > 0) removed += await script.tidy(now, SPAN_MS, tidies);
          const batch = batchOf(story, { source, ago });
          const [got, want] = [await script.record(rules, batch, now), model.record(rules, batch, now)];
          expect(judgedOf(got)).toEqual(judgedOf(want));
          expect(await script.takeTransitions()).toEqual(model.takeTransitions());
        }
        const { stored: _, ...seen } = await script.view(now);
        const { stored: __, ...meant } = model.view(now);
        expect(seen).toEqual(meant);
      }),
      { numRuns: 60 },
    );
    expect(removed).toBeGreaterThan(20);
  });
});

/** Where nothing counted the window was not asked either: it may hold more than anybody would judge by. */
function judgedOf(result: RecordResult): Partial<RecordResult> {
  const { recorded: _, succeeded: __, ...others } = result;
  return result.counted > 0 ? result : others;
}
