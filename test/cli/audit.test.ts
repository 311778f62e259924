import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { readAudit } from '../../src/channel/audit.js';
import { override } from '../../src/channel/override.js';
import { setRules } from '../../src/rules/store.js';
import { stand } from '../announce/support.js';
import { C10, FRESH_MS } from '../channel/support.js';
import { releaseAtEnd } from '../support/releasers.js';
import { until } from '../support/wait.js';
import { place } from './place.js';
import { fuselineHere } from './run.js';

const rulesOn = { mode: 'on', defaults: { window: 5, successRate: 70, block: '30m', hold: '30m' } };
const json = async (args: string[], env: Record<string, string>) =>
  JSON.parse((await fuselineHere([...args, '--json'], env)).out);

it('tells who did what by hand, when, why, from what to what', async () => {
  const { env } = place();
  expect((await fuselineHere(['audit'], env)).out).toBe('nobody changed anything by hand\n');
  const by = (who: string, why: string) => ['--actor', who, '--reason', why];
  await fuselineHere(['block', 'ALIPAY', '--for', '2h', ...by('li@desk', '上线维护')], env);
  await fuselineHere(['block', 'ALIPAY', '--for', '1h', ...by('wu', 'sooner')], env);
  await fuselineHere(['unblock', 'ALIPAY', ...by('li@desk', 'done')], env);
  await fuselineHere(['unblock', 'ALIPAY', ...by('li@desk', 'nothing to do')], env);
  await fuselineHere(['unblock', 'WECHAT', '--for', '10m', ...by('ann', 'we watch it ourselves')], env);
  const trail = await json(['audit'], env);
  const nowMs = trail.at(-1).at;
  expect(trail).toMatchObject([
    { action: 'block', channel: 'ALIPAY', actor: 'li@desk', note: '上线维护', from: 'closed', to: 'open' },
    { action: 'shorten', channel: 'ALIPAY', actor: 'wu', note: 'sooner', from: 'open', to: 'open' },
    { action: 'unblock', channel: 'ALIPAY', actor: 'li@desk', note: 'done', from: 'open', to: 'closed' },
    { action: 'force-closed', channel: 'WECHAT', actor: 'ann', note: 'we watch it ourselves' },
  ]);
  expect(Math.abs(trail[0].until - trail[0].at - 7_200_000)).toBeLessThan(2_000);
  expect(Math.abs(trail[3].until - nowMs - 600_000)).toBeLessThan(2_000);

  const text = await fuselineHere(['audit', '--channel', 'ALIPAY'], env);
  expect(text).toMatchObject({ code: 0, err: '' });
  const time = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`;
  expect(text.out).toMatch(
    new RegExp(`^${time} +li@desk +ALIPAY blocked +in use +blocked until ${time} +"上线维护"$`, 'm'),
  );
  expect(text.out).toMatch(/ALIPAY unblocked +blocked +in use +"done"$/m);
  expect(text.out).not.toContain('WECHAT');
  expect((await fuselineHere(['audit', '--since', 'soon'], env)).code).toBe(2);
});

it('tells a change of the rules with versions and what differs, and no secret', async () => {
  const { env } = place();
  const dir = await mkdtemp(join(tmpdir(), 'fuseline-audit-'));
  releaseAtEnd(() => rm(dir, { recursive: true, force: true }));
  const file = join(dir, 'rules.json');
  const receivers = { ops: { type: 'webhook', url: 'https://example.com/hook/s3cret', secret: 't0psecret' } };
  await writeFile(file, JSON.stringify({ ...rulesOn, receivers, routes: [{ to: ['ops'] }] }));
  await fuselineHere(['rules', 'set', file, '--actor', 'a'], env);
  await fuselineHere(['rules', 'set', file, '--actor', 'nothing changes'], env);
  await writeFile(file, JSON.stringify({ ...rulesOn, mode: 'observe' }));
  await fuselineHere(['rules', 'set', file, '--actor', 'b'], env);
  await fuselineHere(['rules', 'rollback', '1', '--actor', 'c'], env);
  const trail = await json(['audit'], env);
  expect(trail).toMatchObject([
    { action: 'rules-set', actor: 'a', from: '0', to: '1' },
    { action: 'rules-set', actor: 'b', from: '1', to: '2' },
    { action: 'rules-rollback', actor: 'c', from: '2', to: '3', note: 'version 1 again' },
  ]);
  expect(trail[1].changes).toContain('mode: "on" -> "observe"');
  expect(JSON.stringify(trail)).not.toMatch(/s3cret|t0psecret/);
  const { out } = await fuselineHere(['audit'], env);
  expect(out).toMatch(/b +rules set +version 1 +version 2 +mode: "on" -> "observe"/);
});

it('tells what another program did to a block key, once, however many tell the transition', async () => {
  const one = await stand();
  const two = await stand({ keys: one.keys });
  const env = { FUSELINE_REDIS_URL: place().env.FUSELINE_REDIS_URL!, FUSELINE_PREFIX: one.keys.prefix };
  const foreign = async () => {
    const { outbox } = await one.record('C', 'S');
    const [a, b] = [await one.announcer.mark(['C']), await two.announcer.mark(['C'])];
    await one.announcer.announce('C', a[0]!, { pushed: outbox.length, outbox });
    await two.announcer.announce('C', b[0]!, { pushed: 0, outbox });
  };
  const key = one.keys.blocked('C');
  await one.client.set(key, 'x', 'PX', 600_000);
  await foreign();
  await one.client.pexpire(key, 1_200_000);
  await foreign();
  await one.client.del(key);
  await foreign();
  expect(await one.client.xlen(one.keys.audit)).toBe(3);
  expect(await json(['audit'], env)).toMatchObject([
    { action: 'foreign-block', channel: 'C', from: 'closed', to: 'open' },
    { action: 'foreign-extend', from: 'open', to: 'open' },
    { action: 'foreign-unblock', from: 'open', to: 'closed' },
  ]);
  const { out } = await fuselineHere(['audit'], env);
  expect(out).toMatch(/another program +C blocked: its key was set +in use +blocked until/);
  expect(out).toMatch(/another program +C unblocked: its key was deleted +blocked +in use$/m);
});

it('writes nothing down that a rule decided', async () => {
  const one = await stand();
  const { outbox, result } = await one.record('C', 'FFF');
  const [score] = await one.announcer.mark(['C']);
  await one.announcer.announce('C', score!, { pushed: result.pushed, outbox });
  expect(outbox).toMatchObject([{ kind: 'blocked' }]);
  expect(await one.client.exists(one.keys.audit)).toBe(0);
});

it('of a command that died after its change is written by whoever tells it', async () => {
  const one = await stand();
  const hand = { action: 'block', forMs: 60_000, actor: 'ann', note: 'why' } as const;
  const changed = await override(one.client, one.keys, 'C', C10, FRESH_MS, hand);
  expect(await one.client.exists(one.keys.audit)).toBe(0);
  const [score] = await one.announcer.mark(['C']);
  await one.announcer.announce('C', score!, { pushed: 0, outbox: changed.outbox });
  expect(await readAudit(one.client, one.keys)).toMatchObject([{ action: 'block', actor: 'ann', note: 'why' }]);
});

it('under a key of another type keeps nobody from being told, and says so', async () => {
  const one = await stand();
  await one.client.set(one.keys.audit, 'foreign');
  const hand = { action: 'block', forMs: 60_000, actor: 'ann', note: '' } as const;
  const { outbox } = await override(one.client, one.keys, 'C', C10, FRESH_MS, hand);
  const [score] = await one.announcer.mark(['C']);
  expect(await one.announcer.announce('C', score!, { pushed: 1, outbox })).toBe(true);
  expect((await one.jobs('notify')).length).toBe(1);
  expect(one.warnings).toEqual([expect.stringContaining('fuseline:audit has a foreign type')]);
  const { env } = { env: { FUSELINE_REDIS_URL: place().env.FUSELINE_REDIS_URL!, FUSELINE_PREFIX: one.keys.prefix } };
  const forced = await fuselineHere(['unblock', 'D', '--for', '10m'], env);
  expect(forced).toMatchObject({ code: 0, out: 'D was not blocked, and is not judged for 10m\n' });
  expect(forced.err).toMatch(/warning: .*(WRONGTYPE|wrong kind|foreign type)/);
  const set = await setRules(one, { expectedVersion: 0, document: rulesOn, actor: 't' });
  expect(set).toMatchObject({ ok: true, version: 1 });
  expect(set.ok && set.warnings.map(({ message }) => message)).toEqual([expect.stringContaining('not in the audit')]);
});

it('shows the end of what ran out by itself, and none of what was ended before', async () => {
  const { env } = place();
  await fuselineHere(['block', 'A', '--for', '1s', '--actor', 'ann'], env);
  await fuselineHere(['block', 'B', '--for', '1s', '--actor', 'ann'], env);
  await fuselineHere(['unblock', 'B', '--actor', 'ann'], env);
  await fuselineHere(['unblock', 'C', '--for', '10m', '--actor', 'ann'], env);
  await fuselineHere(['unblock', 'C', '--actor', 'wu'], env);
  const rows = await until(() => json(['audit'], env), {
    what: 'the second to be over',
    accept: (all) => all.some(({ channel, derived }: Record<string, unknown>) => channel === 'A' && derived),
  });
  const told = rows.map(({ action, channel }: Record<string, unknown>) => `${channel} ${action}`);
  expect(told.sort()).toEqual(['A block', 'A block-ended', 'B block', 'B unblock', 'C force-closed', 'C force-ended']);
});

it('status shows what a person decided with who, why and until when, also of one that is kept in use', async () => {
  const { keys, client, env } = place();
  await setRules({ client, keys }, { expectedVersion: 0, document: rulesOn, actor: 't' });
  await fuselineHere(['unblock', 'FREE', '--for', '10m', '--actor', 'ann', '--reason', 'contract'], env);
  await fuselineHere(['block', 'SHUT', '--for', '1h', '--actor', 'li', '--reason', 'broken'], env);
  // As the watcher leaves it ten seconds later.
  // It waits for the end of the force.
  expect(await client.zscore(keys.agenda, 'FREE')).not.toBeNull();
  const { channels } = await json(['status'], env);
  const of = (name: string) => channels.find(({ channel }: { channel: string }) => channel === name);
  expect(of('FREE')).toMatchObject({
    blocked: false,
    override: { kind: 'in use', actor: 'ann', note: 'contract', until: of('FREE').notJudgedUntil },
  });
  expect(of('SHUT')).toMatchObject({
    override: { kind: 'blocked', actor: 'li', note: 'broken', until: of('SHUT').until },
  });
  const { out } = await fuselineHere(['status'], env);
  expect(out).toMatch(/^1 blocked, 1 kept in use by hand$/m);
  expect(out).toMatch(/^FREE +IN USE by hand +.*not judged for 9m \d+s, by hand until .*, by ann, "contract"$/m);
  expect(out).toMatch(/^SHUT +BLOCKED +59m.* by hand .*by hand until .*, by li, "broken"$/m);
  expect(out).not.toContain('plainly');
  // A block by hand ends the other decision.
  await fuselineHere(['block', 'FREE', '--actor', 'li'], env);
  const after = (await json(['status'], env)).channels.find((one: { channel: string }) => one.channel === 'FREE');
  expect(after).toMatchObject({ override: { kind: 'blocked', actor: 'li' }, notJudgedUntil: 0 });
});

it('status says in words what other programs did to the block key', async () => {
  const one = await stand();
  const env = { FUSELINE_REDIS_URL: place().env.FUSELINE_REDIS_URL!, FUSELINE_PREFIX: one.keys.prefix };
  await one.client.set(one.keys.blocked('SET'), 'x', 'PX', 600_000);
  await one.record('SET', 'S');
  await one.record('GONE', 'FFF');
  await one.client.del(one.keys.blocked('GONE'));
  await one.record('GONE', 'S');
  await one.announcer.mark(['SET', 'GONE']);
  const { out } = await fuselineHere(['status'], env);
  expect(out).toMatch(/^SET +BLOCKED.* +set by another program/m);
  expect(out).toMatch(/^GONE +watched.* +the block key was deleted/m);
});

it('groups tells members, floor and what it shows, also where another program set the key and nobody met it yet', async () => {
  const { keys, client, env } = place();
  expect((await fuselineHere(['groups'], env)).out).toBe('the rules name no group\n');
  const channels = { A: { group: 'pay' }, B: { group: 'pay' }, 'sms-*': { group: 'sms' } };
  const document = { ...rulesOn, channels, groups: { pay: { minVisible: 1 }, sms: { minVisible: 1 } } };
  await setRules({ client, keys }, { expectedVersion: 0, document, actor: 't' });
  await client.set(keys.blocked('A'), 'open', 'PX', 600_000);
  await fuselineHere(['block', 'B', '--for', 'forever'], env);
  await fuselineHere(['block', 'sms-x', '--for', 'forever'], env);
  expect(await json(['groups'], env)).toMatchObject([
    { name: 'pay', floor: 1, visible: 0, bites: true, shown: [{ channel: 'A', byHand: false }] },
    { name: 'sms', floor: 1, members: ['sms-x'], visible: 0, bites: true, shown: [] },
  ]);
  const { out } = await fuselineHere(['groups'], env);
  expect(out).toMatch(/^pay +0 of 2 +1 +A \(blocked\), B \(blocked\) +TOO FEW LEFT, .*: A until .* \(9m/m);
  expect(out).toMatch(/^sms .* TOO FEW LEFT, and nothing to show: people blocked the others$/m);
});

it('what a person decided is undone by no outcome: neither a block by failures before its time, nor its end by successes', async () => {
  const one = await stand();
  const env = { FUSELINE_REDIS_URL: place().env.FUSELINE_REDIS_URL!, FUSELINE_PREFIX: one.keys.prefix };
  await fuselineHere(['unblock', 'FREE', '--for', '10m'], env);
  await fuselineHere(['block', 'SHUT', '--for', '10m'], env);
  for (const story of ['FFFFF', 'SSSSS', 'FFFFF']) {
    expect((await one.record('FREE', story)).result.blocked).toBe(false);
    expect((await one.record('SHUT', story)).result.blocked).toBe(true);
  }
  expect((await one.record('JUDGED', 'FFFFF')).result.blocked).toBe(true);
  expect((await json(['audit'], env)).map(({ action }: { action: string }) => action)).toEqual([
    'force-closed',
    'block',
  ]);
});
