import { describe, expect, it } from 'vitest';
import { override } from '../../src/channel/override.js';
import { recover } from '../../src/channel/recover.js';
import { readChannels } from '../../src/channel/snapshot.js';
import { startRedis } from '../support/redis.js';
import { until } from '../support/wait.js';
import { ClockedChannel } from './clocked-channel.js';
import { type Bench, batchOf, bench, C10, channelOn, FRESH_MS, policyOf, START } from './support.js';

/** A channel under the test's clock, blocked at START until START + 60 s, its transitions read. */
async function blockedChannel() {
  const env = await bench();
  const channel = new ClockedChannel(
    env.client as ConstructorParameters<typeof ClockedChannel>[0],
    env.keys,
    'C',
    FRESH_MS,
  );
  await channel.record(C10, batchOf('FFF'), START);
  const [block] = await channel.takeTransitions();
  const key = env.keys.blocked('C');
  const look = async (at: number) => {
    await channel.recover(C10, at);
    return await channel.takeTransitions();
  };
  return { ...env, channel, key, block: block!, look };
}

describe('a block key under foreign hands', () => {
  it('deleted: the channel is back as of now, and people are told that somebody deleted it', async () => {
    const { client, channel, key, block, look } = await blockedChannel();
    await client.del(key);
    expect(await look(START + 20_000)).toMatchObject([
      { kind: 'recovered', reason: 'deleted', at: START + 20_000, block: block.epoch, blockedAt: START, until: 0 },
    ]);
    expect(await channel.view(START + 20_000)).toMatchObject({ state: 'closed', blocked: false, window: '' });
    expect(await look(START + 20_001)).toEqual([]);
  });

  it('gone because its time was up: expired, as of its own time, not deleted', async () => {
    const { client, key, look } = await blockedChannel();
    await client.del(key);
    expect(await look(START + 75_000)).toMatchObject([{ kind: 'recovered', reason: 'expired', at: START + 60_000 }]);
  });

  it('extended: the end moves by as much, once, and is kept past the old one', async () => {
    const { client, channel, key, look } = await blockedChannel();
    await client.pexpireat(key, START + 90_000);
    expect(await look(START + 10_000)).toMatchObject([{ kind: 'extended', reason: 'external', until: START + 90_000 }]);
    expect(await look(START + 61_000)).toEqual([]);
    expect(await channel.view(START + 61_000)).toMatchObject({ blocked: true, state: 'open' });
    expect(await look(START + 90_000)).toMatchObject([{ kind: 'recovered', reason: 'expired', at: START + 90_000 }]);
    expect(await client.exists(key)).toBe(0);
  });

  it('extended, and noticed only after the old end: still blocked, no recovery in between', async () => {
    const { client, key, look } = await blockedChannel();
    await client.pexpireat(key, START + 90_000);
    expect(await look(START + 70_000)).toMatchObject([{ kind: 'extended', until: START + 90_000 }]);
  });

  it('shortened: the end follows, whether it is noticed before or after', async () => {
    const early = await blockedChannel();
    await early.client.pexpireat(early.key, START + 30_000);
    expect(await early.look(START + 10_000)).toMatchObject([{ kind: 'shortened', until: START + 30_000 }]);
    expect(await early.look(START + 30_000)).toMatchObject([
      { kind: 'recovered', reason: 'expired', at: START + 30_000 },
    ]);
    const late = await blockedChannel();
    await late.client.del(late.key);
    expect(await late.look(START + 31_000)).toMatchObject([
      { kind: 'recovered', reason: 'deleted', at: START + 31_000 },
    ]);
  });

  it('persisted: a block without end, until somebody gives it one or deletes it', async () => {
    const { client, channel, key, look } = await blockedChannel();
    await client.persist(key);
    expect(await look(START + 1_000)).toMatchObject([{ kind: 'extended', until: -1 }]);
    expect(await look(START + 10_000_000)).toEqual([]);
    expect(await channel.view(START + 10_000_000)).toMatchObject({ blocked: true, until: -1 });
    await client.pexpireat(key, START + 20_000_000);
    expect(await look(START + 10_000_001)).toMatchObject([{ kind: 'shortened', until: START + 20_000_000 }]);
    await client.persist(key);
    await look(START + 10_000_002);
    await client.del(key);
    expect(await look(START + 10_000_003)).toMatchObject([{ kind: 'recovered', reason: 'deleted' }]);
  });

  it('set by another program, with a value of its own: taken over as it is, and ended with its key', async () => {
    const { client, keys, channel, key } = await openChannel();
    await client.set(key, '{"why":"maintenance"}', 'PXAT', START + 45_000);
    expect(await channel.record(C10, batchOf('S'), START)).toMatchObject({
      blocked: true,
      blockedDropped: 1,
      pushed: 1,
    });
    expect(await channel.takeTransitions()).toMatchObject([
      { kind: 'blocked', reason: 'external', until: START + 45_000, trips: 1 },
    ]);
    expect(await client.get(key)).toBe('{"why":"maintenance"}');
    expect(await client.pexpiretime(key)).toBe(START + 45_000);
    expect(await client.pexpiretime(keys.state('C'))).toBe(-1);
    await channel.recover(C10, START + 45_000);
    expect(await channel.takeTransitions()).toMatchObject([
      { kind: 'recovered', reason: 'expired', at: START + 45_000 },
    ]);
  });

  it('set by another program without an expiry: a manual block without end', async () => {
    const { client, channel, key } = await openChannel();
    await client.set(key, '1');
    expect(await channel.recover(C10, START)).toBe(-1);
    expect(await channel.takeTransitions()).toMatchObject([{ kind: 'blocked', reason: 'external', until: -1 }]);
    await client.del(key);
    await channel.recover(C10, START + 5);
    expect(await channel.takeTransitions()).toMatchObject([{ kind: 'recovered', reason: 'deleted', at: START + 5 }]);
  });

  it('set by another program during the hold: a relapse of the same incident', async () => {
    const { client, channel, key, look, block } = await blockedChannel();
    await look(START + 60_000);
    await client.set(key, 'x', 'PXAT', START + 100_000);
    expect(await look(START + 70_000)).toMatchObject([
      { kind: 'relapsed', reason: 'external', trips: 2, incident: block.incident },
    ]);
    expect(await channel.view(START + 70_000)).toMatchObject({ blocked: true });
  });

  it('set in mode observe: hides the channel all the same, because whoever set it wants that', async () => {
    const { client, channel, key } = await openChannel();
    await client.set(key, 'x', 'PXAT', START + 10_000);
    const policy = policyOf({ mode: 'observe' });
    expect(await channel.record(policy, batchOf('FFF'), START)).toMatchObject({ blocked: true, blockedDropped: 3 });
    expect(await channel.takeTransitions()).toMatchObject([{ kind: 'blocked', reason: 'external' }]);
  });

  it.each([9e15, 9.2e18])('that expires at %d, later than a date can be: without end', async (expiry) => {
    const { client, key, keys, channel, look } = await blockedChannel();
    await client.call('SET', key, 'open', 'PXAT', BigInt(expiry).toString());
    expect(await look(START + 1_000)).toMatchObject([{ kind: 'extended', reason: 'external', until: -1 }]);
    expect(await look(START + 2_000)).toEqual([]);
    expect(await channel.view(START + 2_000)).toMatchObject({ state: 'open', blocked: true });
    expect(await readChannels(client, keys, ['C'])).toMatchObject([{ blockKey: { endsAt: -1 }, fault: undefined }]);
  });

  it('moved after a block by hand: told without the name of whoever blocked, and their reason stays with the block', async () => {
    const { client, keys, channel, key } = await openChannel();
    await channel.override(C10, START, 'block', 60_000);
    expect(await channel.takeTransitions()).toMatchObject([
      { kind: 'blocked', reason: 'manual', actor: 'ann', note: 'because' },
    ]);
    await client.pexpireat(key, START + 90_000);
    await channel.recover(C10, START + 1);
    const [moved] = await channel.takeTransitions();
    expect(moved).toMatchObject({ kind: 'extended', reason: 'external' });
    expect(moved).not.toHaveProperty('actor');
    expect(moved).not.toHaveProperty('note');
    expect(await client.hmget(keys.state('C'), 'reason', 'actor')).toEqual(['manual', 'ann']);
  });

  it('evicted: the state follows, although the server said nothing', async () => {
    const env = await bench((await startRedis({ args: ['--maxmemory-policy', 'volatile-random'] })).url);
    const channel = channelOn(env);
    await channel.record('FFF', policyOf({ forMs: 600_000 }));
    await env.client.config('SET', 'maxmemory', '1');
    await until(
      async () => {
        await env.client.set('grow', 'x').catch(() => {});
        return (await env.client.exists(channel.names[1])) === 0;
      },
      { what: 'the block key to be evicted' },
    );
    await env.client.config('SET', 'maxmemory', '0');
    expect(await env.client.exists(channel.names[2])).toBe(1);
    const { outbox } = await channel.record('S');
    expect(outbox.map(({ kind, reason }) => [kind, reason])).toEqual([
      ['blocked', 'success-rate'],
      ['recovered', 'deleted'],
    ]);
  });
});

async function openChannel() {
  const env = await bench();
  const channel = new ClockedChannel(
    env.client as ConstructorParameters<typeof ClockedChannel>[0],
    env.keys,
    'C',
    FRESH_MS,
  );
  return { ...env, channel, key: env.keys.blocked('C') };
}

describe('a key of another type', () => {
  /** What every key of a channel holds and when it goes. */
  async function everything({ client, keys }: Bench, channel = 'C') {
    return await Promise.all(
      keys.channel(channel).map(async (key) => [await client.dumpBuffer(key), await client.pexpiretime(key)] as const),
    );
  }

  async function spoil({ client, keys }: Bench, index: number): Promise<void> {
    const key = keys.channel('C')[index]!;
    await client.del(key);
    await client.zadd(key, 1, 'foreign');
  }

  it.each([
    ['health', 0],
    ['state', 2],
    ['fence', 3],
    ['outbox', 4],
    ['evidence', 5],
  ])('at %s: record refuses clearly, changes nothing, and other channels go on', async (_key, index) => {
    const env = await bench();
    const channel = channelOn(env);
    const never = policyOf({ rate: 0 });
    await channel.record('FF', never);
    await spoil(env, index);
    const before = await everything(env);
    for (const story of ['F', 'FFF', 'SSSSF']) {
      await expect(channel.record(story)).rejects.toThrow(/WRONGTYPE/);
      expect(await everything(env), story).toEqual(before);
    }
    expect((await channelOn(env, 'other').record('FFF')).result).toMatchObject({ blocked: true });
  });

  it.each([
    ['state', 2],
    ['outbox', 4],
  ])('at %s: recover and the operator’s hand refuse as clearly, and change nothing', async (_key, index) => {
    const env = await bench();
    const channel = channelOn(env);
    await channel.record('FFF', policyOf({ forMs: 20 }));
    await until(async () => (await env.client.exists(channel.names[1])) === 0, {
      what: 'the block to end',
      intervalMs: 2,
    });
    await spoil(env, index);
    const before = await everything(env);
    await expect(recover(env.client, env.keys, 'C', C10, FRESH_MS)).rejects.toThrow(/WRONGTYPE/);
    for (const action of ['block', 'unblock'] as const) {
      const hand = { action, forMs: 0, actor: 'ann', note: '' };
      await expect(override(env.client, env.keys, 'C', C10, FRESH_MS, hand)).rejects.toThrow(/WRONGTYPE/);
    }
    expect(await everything(env)).toEqual(before);
  });

  it('at the block key is a block, because EXISTS is the contract; it ends when the key goes', async () => {
    const env = await bench();
    await spoil(env, 1);
    const channel = channelOn(env);
    expect((await channel.record('S')).outbox).toMatchObject([{ kind: 'blocked', reason: 'external', until: -1 }]);
    expect(await env.client.type(channel.names[1])).toBe('zset');
    await env.client.del(channel.names[1]);
    expect((await channel.record('S')).outbox.at(-1)).toMatchObject({ kind: 'recovered', reason: 'deleted' });
  });

  it('at the block key gives way to the operator’s own block', async () => {
    const env = await bench();
    await spoil(env, 1);
    const hand = { action: 'block', forMs: 60_000, actor: 'ann', note: '' } as const;
    expect(await override(env.client, env.keys, 'C', C10, FRESH_MS, hand)).toMatchObject({ blocked: true });
    expect(await env.client.get(env.keys.blocked('C'))).toBe('open');
  });

  it('at the slots of time windows harms no count window, and goes when a window ends', async () => {
    const env = await bench();
    await spoil(env, 6);
    const channel = channelOn(env);
    expect((await channel.record('FF')).result).toMatchObject({ recorded: 2 });
    expect((await channel.record('F')).result).toMatchObject({ blocked: true });
    expect(await env.client.exists(channel.names[6])).toBe(0);
  });

  it('at old evidence goes with the first failure of a new window', async () => {
    const env = await bench();
    await spoil(env, 5);
    const channel = channelOn(env);
    expect((await channel.record('F')).result).toMatchObject({ recorded: 1 });
    expect(await env.client.type(channel.names[5])).toBe('list');
  });
});
