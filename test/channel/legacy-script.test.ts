import { describe, expect, it } from 'vitest';
import { recover } from '../../src/channel/recover.js';
import { type Bench, bench, C10, channelOn, FRESH_MS, policyOf } from './support.js';

/** A script as people have it today: a list, a block key, six steps over the network. */
async function sixSteps(
  { client, keys }: Bench,
  success: boolean,
  push: 'rpush' | 'lpush' = 'rpush',
): Promise<boolean> {
  const [list, block] = keys.channel('C');
  if ((await client.exists(block)) === 1) return true;
  await client[push](list, success ? '1' : '0');
  await (push === 'rpush' ? client.ltrim(list, -10, -1) : client.ltrim(list, 0, 9));
  const results = await client.lrange(list, 0, -1);
  const failures = results.filter((result) => result === '0').length;
  if ((10 - failures) / 10 >= 0.8) return false;
  await client.set(block, Date.now(), 'EX', 60);
  await client.del(list);
  return true;
}

describe('a script of six steps on the same keys, beside our workers', () => {
  it('shares one window: its failures and ours add up, and ours blocks', async () => {
    const env = await bench();
    const channel = channelOn(env);
    expect(await sixSteps(env, false)).toBe(false);
    expect((await channel.record('F')).result).toMatchObject({ recorded: 2, succeeded: 0, blocked: false });
    await sixSteps(env, true);
    expect((await channel.record('F')).result).toMatchObject({ recorded: 4, succeeded: 1, blocked: true });
    expect(await sixSteps(env, false)).toBe(true);
    expect(await env.client.exists(channel.names[0])).toBe(0);
  });

  it('its block is ours: taken over with its end, announced once, and recovered', async () => {
    const env = await bench();
    const channel = channelOn(env);
    await channel.record('FF');
    expect(await sixSteps(env, false)).toBe(true);
    const { result, outbox } = await channel.record('FFF');
    expect(result).toMatchObject({ blocked: true, blockedDropped: 3 });
    expect(outbox).toMatchObject([{ kind: 'blocked', reason: 'external' }]);
    expect(outbox[0]!.until).toBe(await env.client.pexpiretime(channel.names[1]));
    await env.client.del(channel.names[1]);
    const look = await recover(env.client, env.keys, 'C', C10, FRESH_MS);
    expect(look.outbox.map(({ kind }) => kind)).toEqual(['blocked', 'recovered']);
    expect(await sixSteps(env, true)).toBe(false);
  });

  it('its successes of a healthy channel stay no longer than N, and ours ends the window that they left', async () => {
    const env = await bench();
    const channel = channelOn(env);
    for (let i = 0; i < 15; i += 1) await sixSteps(env, true);
    expect(await env.client.llen(channel.names[0])).toBe(10);
    await channel.record('S');
    expect(await env.client.exists(channel.names[0])).toBe(0);
  });

  it('its window without an expiry gets one with our first write', async () => {
    const env = await bench();
    const channel = channelOn(env);
    await sixSteps(env, false);
    expect(await env.client.pttl(channel.names[0])).toBe(-1);
    await channel.record('S');
    expect(await env.client.pttl(channel.names[0])).toBeGreaterThan(0);
  });

  it('mixed at random with ours it never leaves more than N, nor an open channel with the failures that block', async () => {
    const env = await bench();
    const channel = channelOn(env);
    for (let i = 0; i < 200; i += 1) {
      const success = (i * 7) % 5 !== 0;
      if (i % 2 === 0) await sixSteps(env, success);
      else await channel.record(success ? 'S' : 'F');
      const [slots, blocked] = await Promise.all([
        env.client.lrange(channel.names[0], 0, -1),
        env.client.exists(channel.names[1]),
      ]);
      expect(slots.length).toBeLessThanOrEqual(10);
      expect(blocked === 1 || slots.filter((slot) => slot === '0').length < 3).toBe(true);
      if (blocked === 1) await env.client.del(channel.names[1]);
    }
  });

  it('in its LPUSH flavour, newest first, failures add up all the same while the window is not full', async () => {
    const env = await bench();
    const channel = channelOn(env);
    await sixSteps(env, false, 'lpush');
    await sixSteps(env, true, 'lpush');
    expect((await channel.record('SF', policyOf({ rate: 80 }))).result).toMatchObject({ recorded: 4, blocked: false });
    expect(await sixSteps(env, false, 'lpush')).toBe(true);
  });
});
