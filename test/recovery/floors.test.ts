import { describe, expect, it } from 'vitest';
import { override } from '../../src/channel/override.js';
import { DEFAULT_POLICY, type Policy } from '../../src/domain/policy.js';
import type { Transition } from '../../src/domain/transition.js';
import { silent } from '../../src/observe/log.js';
import { notifyJobId } from '../../src/queue/job-id.js';
import { createFloorWatch, type FloorWatchOptions } from '../../src/recovery/floors.js';
import { type Stand, stand } from '../announce/support.js';
import { FRESH_MS } from '../channel/support.js';

type Groups = Record<string, { floor: number; named: string[]; pattern?: string }>;

function rulesOf(groups: Groups, modes: Record<string, Policy['mode']> = {}): FloorWatchOptions['rules'] {
  const groupOf = (channel: string) =>
    Object.entries(groups).find(
      ([, { named, pattern }]) => named.includes(channel) || (pattern && channel.startsWith(pattern)),
    )?.[0];
  return {
    policyFor: (channel) => ({ ...DEFAULT_POLICY, mode: modes[channel] ?? 'on', group: groupOf(channel) }),
    minVisible: (group) => groups[group]?.floor ?? 0,
    namedChannels: () => Object.values(groups).flatMap(({ named }) => named),
    patternGroups: () => new Set(Object.keys(groups).filter((name) => groups[name]!.pattern !== undefined)),
  };
}

/** A watch of a process of its own, its alerts on the real queue unless it breaks. */
async function watch(one: Stand, rules: FloorWatchOptions['rules'], more: Partial<FloorWatchOptions> = {}) {
  const { addNotify } = one;
  return createFloorWatch({ ...one, rules, queues: { addNotify }, log: silent, ...more });
}

async function hand(one: Stand, action: 'block' | 'unblock', channel: string): Promise<void> {
  await override(one.client, one.keys, channel, DEFAULT_POLICY, FRESH_MS, { action, forMs: 0, actor: 'ann', note: '' });
  await one.announcer.mark([channel]);
}

/** As another program does it: not by hand, so that the floor may show it. */
async function block(one: Stand, channel: string, forMs: number): Promise<void> {
  await one.client.set(one.keys.blocked(channel), 'open', 'PX', forMs);
  await one.announcer.mark([channel]);
}

async function unblock(one: Stand, channel: string): Promise<void> {
  await one.client.del(one.keys.blocked(channel));
}

const floorsOf = async (one: Stand) =>
  (await one.jobs('notify')).filter(({ data }) => data.kind === 'floor') as { id: string; data: Transition }[];

const PAY: Groups = { pay: { floor: 1, named: ['ALIPAY', 'WECHAT'] } };

describe('the floor of a group', () => {
  it('that bites is told once by any number of processes, with the channel that is shown and until when', async () => {
    const one = await stand();
    const watches = await Promise.all([1, 2, 3, 4].map(async () => watch(one, rulesOf(PAY))));
    await block(one, 'ALIPAY', 900_000);
    for (const each of watches) await each.look();
    expect(await one.client.exists(one.keys.floors)).toBe(0);
    await block(one, 'WECHAT', 600_000);
    for (let i = 0; i < 3; i += 1) await Promise.all(watches.map((each) => each.look()));
    const told = await floorsOf(one);
    expect(told.map(({ data }) => data.group)).toMatchObject([
      { name: 'pay', floor: 1, members: 2, visible: 0, shown: [{ channel: 'WECHAT' }] },
    ]);
    expect(told[0]!.id).toBe(notifyJobId(told[0]!.data));
    expect(told[0]!.data.group!.shown[0]!.until - (await one.now())).toBeGreaterThan(590_000);
    expect(await one.client.hlen(one.keys.floors)).toBe(1);
  });

  it('that bites again within a moment is no new story, and after it a new one; in between the group is forgotten', async () => {
    const one = await stand();
    const patient = await watch(one, rulesOf(PAY));
    const hasty = await watch(one, rulesOf(PAY), { quietMs: 0 });
    await block(one, 'ALIPAY', 900_000);
    await block(one, 'WECHAT', 600_000);
    await patient.look();
    await unblock(one, 'WECHAT');
    for (let i = 0; i < 3; i += 1) await patient.look();
    await block(one, 'WECHAT', 600_000);
    await patient.look();
    expect((await floorsOf(one)).length).toBe(1);
    await unblock(one, 'WECHAT');
    await hasty.look();
    expect(await one.client.hlen(one.keys.floors)).toBe(1);
    await hasty.look();
    expect(await one.client.exists(one.keys.floors)).toBe(0);
    await block(one, 'WECHAT', 600_000);
    await patient.look();
    const told = await floorsOf(one);
    expect(new Set(told.map(({ id }) => id)).size).toBe(2);
  });

  it('of a process that died before it told is told by the next, under the same id', async () => {
    const one = await stand();
    await block(one, 'ALIPAY', 900_000);
    await block(one, 'WECHAT', 600_000);
    const dying = await watch(one, rulesOf(PAY), { queues: { addNotify: () => Promise.reject(new Error('away')) } });
    await expect(dying.look()).rejects.toThrow('away');
    expect(await floorsOf(one)).toEqual([]);
    const since = JSON.parse((await one.client.hget(one.keys.floors, 'pay'))!).since;
    for (let i = 0; i < 2; i += 1) await (await watch(one, rulesOf(PAY))).look();
    expect((await floorsOf(one)).map(({ data }) => data.epoch)).toEqual([since]);
  });

  it('shows nobody whom a person blocked, and says so', async () => {
    const one = await stand();
    const each = await watch(one, rulesOf(PAY));
    await hand(one, 'block', 'ALIPAY');
    await hand(one, 'block', 'WECHAT');
    await each.look();
    expect((await floorsOf(one)).map(({ data }) => data.group!.shown)).toEqual([[]]);
  });

  it('leaves groups without a floor and channels that are not judged alone', async () => {
    const one = await stand();
    const groups = { sms: { floor: 0, named: ['A'] }, login: { floor: 1, named: ['B', 'OFF'] } };
    const each = await watch(one, rulesOf(groups, { OFF: 'off' }));
    for (const channel of ['A', 'B', 'OFF']) await block(one, channel, 600_000);
    await each.look();
    expect(await one.client.exists(one.keys.floors)).toBe(0);
    expect(await floorsOf(one)).toEqual([]);
  });

  it('knows the healthy members of a pattern by their traffic, and remembers them when it pauses', async () => {
    const one = await stand();
    const groups = { sms: { floor: 1, named: [], pattern: 'sms-' } };
    let seen = ['sms-b', 'other'];
    const each = await watch(one, rulesOf(groups), { seen: async () => seen, learnMs: 0 });
    await block(one, 'sms-a', 600_000);
    await each.look();
    seen = [];
    await each.look();
    expect(await floorsOf(one)).toEqual([]);
    await block(one, 'sms-b', 600_000);
    await each.look();
    expect((await floorsOf(one)).map(({ data }) => data.group!.members)).toEqual([2]);
  });

  it('of a pattern is told by nobody who has not seen traffic for long enough, nor taken for over', async () => {
    const one = await stand();
    const groups = { sms: { floor: 1, named: ['sms-a'], pattern: 'sms-' }, ...PAY };
    await block(one, 'sms-a', 600_000);
    const blind = await watch(one, rulesOf(groups), { seen: async () => [], learnMs: 0 });
    const young = await watch(one, rulesOf(groups), { seen: async () => ['sms-a'], quietMs: 0 });
    for (let i = 0; i < 3; i += 1) for (const each of [blind, young]) await each.look();
    expect(await floorsOf(one)).toEqual([]);
    const old = await watch(one, rulesOf(groups), { seen: async () => ['sms-a'], learnMs: 0 });
    await old.look();
    expect((await floorsOf(one)).map(({ data }) => data.group!.name)).toEqual(['sms']);
    await unblock(one, 'sms-a');
    for (let i = 0; i < 3; i += 1) await young.look();
    expect(await one.client.hlen(one.keys.floors)).toBe(1);
    // Where all members are named there is nothing to learn.
    for (const channel of ['ALIPAY', 'WECHAT']) await block(one, channel, 600_000);
    await young.look();
    expect((await floorsOf(one)).map(({ data }) => data.group!.name).sort()).toEqual(['pay', 'sms']);
  });

  it('costs a fleet in good health no look at its members, of whom a pattern may have thousands', async () => {
    const one = await stand();
    const rules = rulesOf({ sms: { floor: 1, named: ['sms-1'], pattern: 'sms-' } });
    const asked: string[] = [];
    const policyFor = (channel: string) => {
      asked.push(channel);
      return rules.policyFor(channel);
    };
    const seen = async () => Array.from({ length: 1_000 }, (_, i) => `sms-${i}`);
    const each = await watch(one, { ...rules, policyFor }, { seen, learnMs: 0 });
    await each.look();
    expect(asked).toEqual(['sms-1']);
  });

  it('that somebody filled with nonsense is put right', async () => {
    const one = await stand();
    await one.client.hset(one.keys.floors, 'gone', 'nonsense');
    await (await watch(one, rulesOf(PAY))).look();
    expect(await one.client.exists(one.keys.floors)).toBe(0);
  });
});
