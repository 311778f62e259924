import { describe, expect, it } from 'vitest';
import { recover } from '../../src/channel/recover.js';
import { until } from '../support/wait.js';
import { ClockedChannel } from './clocked-channel.js';
import { batchOf, bench, channelOn, FRESH_MS, policyOf, START, Twin } from './support.js';
import { DEADLINE, END, onTrial, trying, WAIT_MS } from './trials.js';

const POLICY = trying();

describe('half-open and a hand', () => {
  it('is blocked by hand: another block of the incident, for as long as asked', async () => {
    const channel = await onTrial();
    await channel.byHand('block', 5_000, POLICY);
    expect(channel.told[2]).toMatchObject({
      ...{ kind: 'relapsed', from: 'half-open', reason: 'manual', actor: 'ann', note: 'because', trips: 2 },
      until: channel.now + 5_000,
    });
    await channel.byHand('block', -1, POLICY);
    channel.pass(10_000_000);
    await channel.recover(POLICY);
    expect(channel.told.slice(3)).toMatchObject([{ kind: 'extended', until: -1 }]);
    expect(await channel.client.pexpiretime(channel.names[1])).toBe(-1);
  });

  it('is ended by hand: in full use at once, and watched', async () => {
    const channel = await onTrial();
    await channel.record('SS', POLICY);
    await channel.byHand('unblock', 0, POLICY);
    expect(channel.told[2]).toMatchObject({ kind: 'recovered', from: 'half-open', reason: 'manual', actor: 'ann' });
    expect(await channel.recover(POLICY)).toBe(channel.now + 60_000);
    channel.pass(1);
    expect(await channel.record('F', POLICY)).toMatchObject({ recorded: 1, blocked: false });
  });

  it('is held open by hand: no outcome of the trial blocks it meanwhile', async () => {
    const channel = await onTrial();
    await channel.byHand('unblock', 10_000, POLICY);
    channel.pass(5_000);
    expect(await channel.record('FFFF', POLICY)).toMatchObject({ overridden: 4, blocked: false });
    channel.pass(5_001);
    await channel.record('FFF', POLICY);
    expect(channel.kinds().filter((kind) => !kind.startsWith('force'))).toEqual([
      ...['blocked', 'half-open', 'recovered', 'relapsed'],
    ]);
  });
});

describe('half-open and rules that change meanwhile', () => {
  const plain = policyOf({ growth: 2 });

  it('ends with the first outcome, or at its deadline, where the rules know it no more', async () => {
    const good = await onTrial();
    await good.record('S', plain);
    expect(good.told[2]).toMatchObject({ kind: 'recovered', reason: 'half-open-success' });
    const bad = await onTrial();
    await bad.record('F', plain);
    expect(bad.told[2]).toMatchObject({ kind: 'relapsed', reason: 'half-open-failure' });
    const silent = await onTrial(trying({ reopens: true }));
    silent.pass(WAIT_MS);
    await silent.recover(plain);
    expect(silent.told[2]).toMatchObject({ kind: 'recovered', reason: 'half-open-timeout', at: DEADLINE });
  });

  it('does not come where it was taken out of the rules during the block: back in full use at the end, the key with it', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFF', POLICY);
    channel.pass(60_000);
    await channel.recover(plain);
    expect(channel.told[1]).toMatchObject({ kind: 'recovered', reason: 'expired', at: END });
    expect(await channel.client.exists(channel.names[1])).toBe(0);
  });

  it('comes where it was put into the rules during the block, and brings the key back', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFF', plain);
    expect(await channel.client.pexpiretime(channel.names[1])).toBe(END);
    channel.pass(60_000);
    await channel.client.del(channel.names[1]);
    await channel.recover(POLICY);
    expect(channel.told[1]).toMatchObject({ kind: 'half-open', at: END });
    expect(await channel.client.get(channel.names[1])).toBe('half-open');
  });

  it('closes at the end of its step where the steps to come were taken away', async () => {
    const long = trying({ steps: [1_000, 2_000, 3_000, 4_000], close: 1 });
    const channel = await onTrial(long);
    await channel.record('SS', long);
    expect(channel.told.at(-1)).toMatchObject({ step: 2, share: 3_000 });
    await channel.record('S', trying({ steps: [1_000, 2_000], close: 1 }));
    expect(channel.told.at(-1)).toMatchObject({ kind: 'recovered', reason: 'half-open-success' });
  });

  it('goes on to its deadline in mode observe and in mode off: rules never shorten what keeps a channel out', async () => {
    for (const mode of ['observe', 'off'] as const) {
      const channel = await onTrial();
      const policy = { ...POLICY, mode };
      if (mode === 'observe') await channel.record('FFF', policy);
      await channel.recover(policy);
      expect(await channel.view(), mode).toMatchObject({ state: 'half-open', blocked: true });
      channel.pass(WAIT_MS);
      await channel.recover(policy);
      expect(channel.told.at(-1), mode).toMatchObject({ kind: 'recovered', reason: 'half-open-timeout', at: DEADLINE });
    }
  });
});

/** Under the clock alone: the model knows no foreign hands. On trial since END. */
async function foreignTrial() {
  const env = await bench();
  const clocked = new ClockedChannel(
    env.client as ConstructorParameters<typeof ClockedChannel>[0],
    env.keys,
    'C',
    FRESH_MS,
  );
  const key = env.keys.blocked('C');
  const look = async (at: number, policy = POLICY) => {
    await clocked.recover(policy, at);
    return await clocked.takeTransitions();
  };
  const record = async (story: string, at: number) => {
    await clocked.record(POLICY, batchOf(story), at);
    return await clocked.takeTransitions();
  };
  const [block] = await record('FFF', START);
  return { ...env, key, look, record, block: block!, expiry: () => env.client.pexpiretime(key) };
}

describe('half-open under foreign hands on the block key', () => {
  it('deleted: the channel is back in use as of now, and watched', async () => {
    const { client, key, look, block } = await foreignTrial();
    await look(END);
    await client.del(key);
    expect(await look(END + 5_000)).toMatchObject([
      { kind: 'recovered', from: 'half-open', reason: 'deleted', at: END + 5_000, block: block.epoch },
    ]);
    expect(await look(END + 66_000)).toMatchObject([{ kind: 'held', at: END + 65_000 }]);
  });

  it('gone with its deadline: told as that, not as deleted', async () => {
    const { client, key, look } = await foreignTrial();
    await look(END);
    await client.del(key);
    expect(await look(DEADLINE + 2_000)).toMatchObject([
      { kind: 'recovered', reason: 'half-open-timeout', at: DEADLINE },
    ]);
  });

  it('deleted during the block and noticed after its end: the key would still be there, so nobody is kept out again', async () => {
    const { client, key, look } = await foreignTrial();
    await client.del(key);
    expect(await look(END + 3_000)).toMatchObject([
      { kind: 'recovered', from: 'open', reason: 'deleted', at: END + 3_000 },
    ]);
    expect(await client.exists(key)).toBe(0);
  });

  it('extended: the deadline moves by as much, once', async () => {
    const { client, key, look, record } = await foreignTrial();
    await look(END);
    await client.pexpireat(key, DEADLINE + 10_000);
    expect(await look(END + 1_000)).toMatchObject([
      { kind: 'extended', from: 'half-open', to: 'half-open', reason: 'external', until: DEADLINE + 10_000 },
    ]);
    expect(await look(DEADLINE)).toEqual([]);
    expect(await record('SSS', DEADLINE + 1)).toMatchObject([{ kind: 'recovered', reason: 'half-open-success' }]);
  });

  it('persisted: no deadline any more, but outcomes go on to decide', async () => {
    const { client, key, look, record } = await foreignTrial();
    await look(END);
    await client.persist(key);
    expect(await look(END + 1_000)).toMatchObject([{ kind: 'extended', to: 'half-open', until: -1 }]);
    expect(await look(END + 10_000_000)).toEqual([]);
    expect(await record('SSS', END + 10_000_001)).toMatchObject([{ kind: 'recovered' }]);
    expect(await client.exists(key)).toBe(0);
  });

  it('extended during the block: the block lasts longer by as much, and the trial follows it', async () => {
    const { client, key, look, expiry } = await foreignTrial();
    await client.pexpireat(key, DEADLINE + 10_000);
    expect(await look(START + 1_000)).toMatchObject([{ kind: 'extended', until: END + 10_000 }]);
    expect(await look(END)).toEqual([]);
    expect(await look(END + 10_000)).toMatchObject([{ kind: 'half-open', at: END + 10_000, until: DEADLINE + 10_000 }]);
    expect(await expiry()).toBe(DEADLINE + 10_000);
  });

  it('shortened during the block by more than is left of it: the trial begins now, never before the block itself', async () => {
    const { client, key, look, record } = await foreignTrial();
    await client.pexpireat(key, START + 2_000);
    const told = await look(START + 1_000);
    expect(told).toMatchObject([
      { kind: 'shortened', until: START + 1_000 },
      { kind: 'half-open', at: START + 1_000, until: START + 1_000 + WAIT_MS },
    ]);
    expect(await record('F', START + 1_001)).toMatchObject([{ kind: 'relapsed', reason: 'half-open-failure' }]);
  });

  it('lost with the state after a failover: the job of its deadline tells the end from its own data', async () => {
    const env = await bench();
    const policy = trying({}, { forMs: 1 });
    const channel = channelOn(env);
    await channel.record('FFF', policy);
    const begun = await until(() => recover(env.client, env.keys, 'C', policy, FRESH_MS), {
      what: 'the end of the block',
      accept: ({ outbox }) => outbox.at(-1)?.kind === 'half-open',
    });
    const { block, until: ends, incident, trips, blockedAt } = begun.outbox.at(-1)!;
    await env.client.del(...channel.names);
    const end = { channel: 'C', block, until: ends, incident, trips, blockedAt };
    const look = await recover(env.client, env.keys, 'C', policy, FRESH_MS, end);
    expect(look.outbox).toMatchObject([{ kind: 'recovered', reason: 'state lost', block, incident, to: 'closed' }]);
    expect((await recover(env.client, env.keys, 'C', policy, FRESH_MS, end)).pushed).toBe(0);
  });
});
