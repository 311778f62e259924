import { describe, expect, it } from 'vitest';
import { LOOK_EVERY_MS } from '../../src/announce.js';
import type { BlockEnd } from '../../src/domain/transition.js';
import { sweep } from '../../src/recovery/sweep.js';
import { type Stand, stand } from '../announce/support.js';
import { policyOf } from '../channel/support.js';
import { sharedRedisUrl } from '../support/redis.js';
import { readFeedStories, storyProblems } from '../support/story.js';
import { until } from '../support/wait.js';
import { watch } from './watch.js';

async function block(one: Stand, channel: string, story: string): Promise<void> {
  const { result, outbox } = await one.record(channel, story);
  const [score] = await one.announcer.mark([channel]);
  await one.announcer.announce(channel, score!, { pushed: result.pushed, outbox });
}

/** Kinds in the order of their epochs. */
async function kinds(one: Stand, channel: string): Promise<string[]> {
  const jobs = (await one.jobs('notify')).filter(({ data }) => data.channel === channel);
  return jobs.sort((a, b) => a.data.epoch - b.data.epoch).map(({ data }) => data.kind);
}

describe('a trial that nobody calls', () => {
  it('begins within moments of the end of its block, keeps the block key, and ends at its deadline, each told once', async () => {
    const halfOpen = { steps: [1_000], permits: 1, close: 1, waitMs: 900, reopens: false };
    const one = await stand({ policy: policyOf({ forMs: 700, holdMs: 300, halfOpen }) });
    for (let i = 0; i < 2; i += 1) await watch(one, sharedRedisUrl());
    await block(one, 'C', 'FFF');
    const seen = new Set<string | null>();
    const look = async () => {
      const value = await one.client.get(one.keys.blocked('C'));
      seen.add(value);
      return value;
    };
    await until(look, { what: 'the key to go', accept: (value) => value === null, timeoutMs: 15_000 });
    await until(() => kinds(one, 'C'), { what: 'the end of the watch', accept: (told) => told.includes('held') });
    const told = await one.jobs('notify');
    expect(await kinds(one, 'C')).toEqual(['blocked', 'half-open', 'recovered', 'held']);
    const { stories, problems } = await readFeedStories(one.client, one.keys);
    expect([...problems, ...storyProblems(stories.get('C')!)]).toEqual([]);
    expect([...seen].slice(-2)).toEqual(['half-open', null]);
    const lateMs = told.filter(({ data }) => data.kind !== 'held').map(({ data }) => data.epoch - data.at);
    expect(Math.max(...lateMs)).toBeLessThan(1_500);
    expect(told.find(({ data }) => data.kind === 'recovered')!.data.reason).toBe('half-open-timeout');
    const ends = (await one.jobs<BlockEnd>('recovery')).map(({ data }) => data.until - data.blockedAt);
    expect(
      ends.sort((a, b) => a - b),
      'a job for either end',
    ).toEqual([700, 1_600]);
  });
});

describe('the agenda of what is no state', () => {
  const levels = [{ name: 'cached', line: 9_000 }];

  it('keeps a degraded channel, looked at as seldom as a blocked one, until its level has ended', async () => {
    const one = await stand({ policy: policyOf({ levels }) });
    await block(one, 'C', 'FF');
    const ahead = async () => (await one.agenda()).C! - (await one.now());
    expect(await ahead()).toBeGreaterThan(LOOK_EVERY_MS - 2_000);
    expect(await ahead()).toBeLessThanOrEqual(LOOK_EVERY_MS);
    expect(await sweep(one.watching)).toMatchObject({ looked: 0 });
    const due = async () => void (await one.client.zadd(one.keys.agenda, await one.now(), 'C'));
    await due();
    expect(await sweep(one.watching)).toEqual({ looked: 1, moved: 0, failed: 0 });
    expect(await ahead()).toBeGreaterThan(LOOK_EVERY_MS - 2_000);
    await one.client.del(one.keys.channel('C')[0]);
    await due();
    expect(await sweep(one.watching)).toEqual({ looked: 1, moved: 1, failed: 0 });
    expect(await one.agenda()).toEqual({});
    expect(await kinds(one, 'C')).toEqual(['level', 'level']);
    expect(await one.jobs('recovery')).toEqual([]);
    // Without an incident there is nothing to write into the history of incidents.
    expect(await one.client.xlen(one.keys.incidents)).toBe(0);
  });

  it('gives every renewal of a block that waits for a hand a job of its own, and reminds once for each', async () => {
    const one = await stand({ policy: policyOf({ forMs: 500, isReleasedByHand: true }) });
    await watch(one, sharedRedisUrl());
    await block(one, 'C', 'FFF');
    let gone = 0;
    await until(
      async () => {
        gone += (await one.client.exists(one.keys.blocked('C'))) === 0 ? 1 : 0;
        return kinds(one, 'C');
      },
      { what: 'three reminders', accept: (told) => told.length >= 4, timeoutMs: 15_000 },
    );
    expect(gone).toBe(0);
    const told = (await one.jobs('notify')).map(({ data }) => data).sort((a, b) => a.epoch - b.epoch);
    expect(told.slice(1).every(({ kind, reason }) => kind === 'extended' && reason === 'awaits-release')).toBe(true);
    for (const [i, { at }] of told.entries()) if (i > 0) expect(at).toBeGreaterThanOrEqual(told[i - 1]!.until);
    const jobs = (await one.jobs<BlockEnd>('recovery')).map(({ data }) => data.until);
    expect(new Set(jobs).size).toBe(jobs.length);
    expect(jobs.length).toBeGreaterThanOrEqual(told.length - 1);
    await one.unblock('C');
  });
});
