import { describe, expect, it } from 'vitest';
import { recover } from '../../src/channel/recover.js';
import { bench, C10, channelOn, judged, policyOf, Twin } from './support.js';

describe('a third party that asks to wait, in script and model alike', () => {
  const policy = policyOf({ rateLimit: { minMs: 1_000, maxMs: 300_000 } });

  it('hides the channel for just so long, without an incident, and is no relapse to come', async () => {
    const channel = new Twin(await bench());
    expect(await channel.record('W', policy, { retryAfterMs: 5_000 })).toMatchObject({ blocked: true, counted: 1 });
    expect(await channel.client.pexpiretime(channel.names[1])).toBe(channel.now + 5_000);
    expect(channel.told).toMatchObject([{ kind: 'paused', reason: 'rate-limited', incident: '', trips: 0 }]);
    expect(channel.told[0]?.evidence).toMatchObject([{ retryAfterMs: 5_000 }]);
    channel.pass(4_999);
    expect(await channel.record('S', policy)).toMatchObject({ blocked: true, blockedDropped: 1 });
    channel.pass(1);
    await channel.recover(policy);
    expect(channel.told[1]).toMatchObject({ kind: 'resumed', reason: 'rate-limit-over', incident: '', trips: 0 });
    channel.pass(1_000);
    await channel.record('FFF', policy);
    expect(channel.told[2]).toMatchObject({ kind: 'blocked', trips: 1 });
  });

  it('is followed within bounds, from the end of its own outcome, and not when that time is over', async () => {
    for (const [retryAfterMs, ago, lasts] of [
      [1, 0, 1_000],
      [1_000.2, 0, 1_001],
      [86_400_000, 0, 300_000],
      [5_000, 2_000, 3_000],
      [5_000, 5_000, 0],
      [undefined, 0, 1_000],
    ] as const) {
      const channel = new Twin(await bench());
      channel.pass(60_000);
      const seen = await channel.record('W', policy, { ago, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });
      expect(seen, `${retryAfterMs}, ${ago}`).toMatchObject({ blocked: lasts > 0, counted: 1 });
      const key = await channel.client.pexpiretime(channel.names[1]);
      expect(key, `${retryAfterMs}, ${ago}`).toBe(lasts > 0 ? channel.now + lasts : -2);
    }
  });

  it('neither counts a trip nor ends the watch: a later block is a relapse of the same incident', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFF', policy);
    channel.pass(60_000);
    await channel.recover(policy);
    channel.pass(10_000);
    await channel.record('W', policy, { retryAfterMs: 20_000 });
    channel.pass(20_001);
    await channel.record('FFF', policy);
    expect(channel.kinds()).toEqual(['blocked', 'recovered', 'paused', 'resumed', 'relapsed']);
    // What is told of the pause names no incident, although one is still watched.
    expect(channel.told.slice(2, 4)).toMatchObject(Array(2).fill({ incident: '', trips: 0 }));
    expect(channel.told[4]).toMatchObject({ trips: 2, incident: channel.told[0]?.incident });
  });

  it('lets the watch run out meanwhile, and says so after it', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFF', policy);
    channel.pass(60_000);
    await channel.recover(policy);
    channel.pass(50_000);
    await channel.record('W', policy, { retryAfterMs: 100_000 });
    channel.pass(100_000);
    await channel.recover(policy);
    expect(channel.kinds()).toEqual(['blocked', 'recovered', 'paused', 'resumed', 'held']);
    expect(channel.told[4]).toMatchObject({ incident: channel.told[0]?.incident });
  });

  it('gives way to a block by hand, which is an incident of its own', async () => {
    const channel = new Twin(await bench());
    await channel.record('W', policy, { retryAfterMs: 100_000 });
    channel.pass(1_000);
    await channel.byHand('block', 30_000, policy);
    expect(channel.kinds()).toEqual(['paused', 'resumed', 'blocked']);
    expect(channel.told[2]).toMatchObject({ reason: 'manual', actor: 'ann', trips: 1, until: channel.now + 30_000 });
    expect(channel.told[2]?.incident).toBe(String(channel.told[2]?.epoch));
  });

  it('is over when another program deletes its key', async () => {
    const env = await bench();
    const channel = channelOn(env);
    const { outbox } = await channel.record('W', policy, { retryAfterMs: 100_000 });
    await env.client.del(channel.names[1], channel.names[4]);
    const look = await recover(env.client, env.keys, 'C', policy, 300_000);
    expect(outbox).toMatchObject([{ kind: 'paused' }]);
    expect(look.outbox).toMatchObject([{ kind: 'resumed', reason: 'deleted', incident: '', trips: 0 }]);
    expect(await env.client.exists(channel.names[1])).toBe(0);
  });

  it('is over without a word to people also when a flush took its state along', async () => {
    const env = await bench();
    const channel = channelOn(env);
    const { outbox } = await channel.record('W', policy, { retryAfterMs: 100_000 });
    const { block, until, incident, trips, blockedAt } = outbox[0]!;
    await env.client.del(...channel.names);
    const end = { channel: 'C', block, until, incident, trips, blockedAt };
    const look = await recover(env.client, env.keys, 'C', policy, 300_000, end);
    expect(look.outbox).toMatchObject([{ kind: 'resumed', reason: 'state lost', incident: '', trips: 0 }]);
    // It is not watched, so the next block is the first of its incident.
    expect(look.dueAt).toBe(0);
  });

  it('hides nothing and tells nobody in mode observe', async () => {
    const channel = new Twin(await bench());
    const observe = { ...policy, mode: 'observe' } as const;
    expect(await channel.record('WFW', observe, { retryAfterMs: 5_000 })).toMatchObject({ blocked: false, counted: 3 });
    expect(channel.kinds()).toEqual([]);
  });

  it('forgets the failures before it, and is no failure itself', async () => {
    const channel = new Twin(await bench());
    await channel.record('FF', policy);
    await channel.record('WF', policy, { retryAfterMs: 1_000 });
    channel.pass(1_001);
    expect(await channel.record('FF', policy)).toMatchObject({ blocked: false, recorded: 2 });
  });

  it('changes nothing when it is read again, during the pause and after it', async () => {
    const channel = new Twin(await bench());
    const batch = { ...judged(policy, [{ success: false, code: '429', retryAfterMs: 9_000 }])! };
    await channel.send(batch, policy);
    channel.pass(5_000);
    expect(await channel.send(batch, policy)).toMatchObject({ blockedDropped: 1, pushed: 0 });
    channel.pass(5_000);
    const old = { ...batch, entries: [['1', channel.now - 10_000, 1]] as const };
    expect(await channel.send(old, policy)).toMatchObject({ duplicate: 1, pushed: 1, blocked: false });
    expect(await channel.send({ ...old, partition: 'test/log/1/0' }, policy)).toMatchObject({
      late: 1,
      blocked: false,
    });
    expect(channel.kinds()).toEqual(['paused', 'resumed']);
  });

  it('is followed only under rules that follow it, also where these have changed since it was classified', async () => {
    const env = await bench();
    for (const [i, rules] of [
      C10,
      policyOf({ minFailures: 2 }),
      policyOf({ window: { kind: 'log', spanMs: 10_000, minCalls: 5, maxEntries: 9 } }),
    ].entries()) {
      const channel = channelOn(env, `C${i}`);
      await channel.record('F', rules);
      const { result, outbox } = await channel.record('W', rules, { retryAfterMs: 60_000 });
      expect(result).toMatchObject({ blocked: false });
      expect(outbox).toEqual([]);
    }
  });
});
