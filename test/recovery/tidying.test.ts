import { describe, expect, it } from 'vitest';
import type { Policy } from '../../src/domain/policy.js';
import { createTidier } from '../../src/recovery/tidying.js';
import { type Bench, bench, FRESH_MS, policyOf } from '../channel/support.js';

const log = (spanMs: number): Policy => policyOf({ window: { kind: 'log', spanMs, minCalls: 5, maxEntries: 10_000 } });

/** Puts calls of long ago into a channel's log. */
async function fill({ client, keys }: Bench, channel: string, calls: number): Promise<string> {
  const [, , , , , , slots, sorted] = keys.channel(channel);
  await client.hset(slots, { '@log': calls, '@newest': calls, '@successes': calls, '@failures': 0, '@slow': 0 });
  const members = Array.from({ length: calls }, (_, i) => [i + 1, `${String(i + 1).padStart(12, '0')}:1:${i}`]).flat();
  await client.zadd(sorted, ...members);
  return sorted;
}

/** A tidier whose clock the test moves. */
function tidier(env: Bench, policies: Record<string, Policy>, seen: string[] = []) {
  const clock = { nowMs: 1_000 };
  const rules = {
    policyFor: (channel: string) => policies[channel] ?? policyOf({}),
    namedChannels: () => Object.keys(policies),
  };
  const options = { client: env.client, keys: env.keys, rules, freshForMs: FRESH_MS, clock: () => clock.nowMs };
  const made = createTidier({ ...options, seen: async () => seen });
  return { clock, turn: made.turn };
}

describe('the tidying of call logs', () => {
  it('looks at each a tenth of its span later again, never before 5 s and always after 60 s', async () => {
    const env = await bench();
    const spans = { short: 1_000, middle: 200_000, long: 3_600_000 };
    const policies = Object.fromEntries(Object.entries(spans).map(([name, spanMs]) => [name, log(spanMs)]));
    const { clock, turn } = tidier(env, policies);
    const looked: Record<string, number[]> = { short: [], middle: [], long: [] };
    for (const startedAt = clock.nowMs; clock.nowMs <= startedAt + 60_000; clock.nowMs += 1_000) {
      for (const name of Object.keys(spans)) await fill(env, name, 1);
      await turn();
      for (const name of Object.keys(spans)) {
        const [, , , , , , , sorted] = env.keys.channel(name);
        if ((await env.client.exists(sorted)) === 0) looked[name]!.push((clock.nowMs - startedAt) / 1_000);
      }
    }
    expect(looked.short).toEqual([0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60]);
    expect(looked.middle).toEqual([0, 20, 40, 60]);
    expect(looked.long).toEqual([0, 60]);
  });

  it('begins with the busiest, does only so much in one turn, and comes back at once where more is left', async () => {
    const env = await bench();
    const names = Array.from({ length: 60 }, (_, i) => `C${i}`);
    const policies = Object.fromEntries(names.map((name) => [name, log(10_000)]));
    const { turn } = tidier(env, policies, ['C59', 'C58', 'other']);
    const big = await fill(env, 'C59', 1_200);
    const last = await fill(env, 'C57', 1);
    expect(await turn()).toBe(500);
    expect(await env.client.zcard(big)).toBe(700);
    expect(await env.client.exists(last)).toBe(1);
    expect(await turn()).toBe(501);
    expect(await env.client.exists(last)).toBe(0);
    expect(await turn()).toBe(200);
    expect(await turn()).toBe(0);
  });

  it('leaves channels alone that are judged by another kind, and does without the list of busy ones', async () => {
    const env = await bench();
    await fill(env, 'count', 3);
    await fill(env, 'named', 3);
    const rules = {
      policyFor: (name: string) => (name === 'named' ? log(10_000) : policyOf({})),
      namedChannels: () => ['named', 'count'],
    };
    const options = { client: env.client, keys: env.keys, rules, freshForMs: FRESH_MS };
    const blind = createTidier({ ...options, seen: () => Promise.reject(new Error('away')) });
    expect(await blind.turn()).toBe(3);
    expect(await env.client.zcard(env.keys.channel('count')[7])).toBe(3);
  });

  it('goes on with the others where one key has a foreign type', async () => {
    const env = await bench();
    const { turn } = tidier(env, { bad: log(10_000), good: log(10_000) });
    await env.client.set(env.keys.channel('bad')[7], 'mine');
    await fill(env, 'good', 2);
    expect(await turn()).toBe(2);
  });
});
