import { expect, it } from 'vitest';
import { readLoad, stepLoad } from '../../src/channel/load.js';
import { setRules } from '../../src/rules/store.js';
import { rulesFile } from '../process/workers.js';
import { place } from './place.js';
import { fuselineHere } from './run.js';

const DYNAMIC = {
  mode: 'on',
  defaults: { window: 10, successRate: 70 },
  channels: {
    ALIPAY: { dynamic: true, window: 20 },
    'sms-*': { dynamic: true, window: { kind: 'time', span: '10s', slots: 10, minCalls: 5 } },
    LOGIN: { dynamic: true, policy: 'login' },
    BANK: {},
  },
};
const json = async (args: string[], env: Record<string, string>) =>
  JSON.parse((await fuselineHere([...args, '--json'], env)).out);

it('sets the load by hand with an end, shows it, clears it, and writes both into the audit trail', async () => {
  const { env, client, keys } = place();
  await setRules({ client, keys }, { expectedVersion: 0, document: DYNAMIC, actor: 't' });
  expect((await fuselineHere(['load'], env)).out).toContain('load unknown\n');
  const set = await fuselineHere(['load', 'set', '0.8', '--for', '10m', '--actor', 'li@desk', '--reason', '大促'], env);
  expect(set).toMatchObject({ code: 0, err: '' });
  expect(set.out).toMatch(/^the load is 0\.8, set by li@desk until \d{4}-.* \(10m\)$/m);
  await fuselineHere(['load', 'set', '1', '--actor', 'wu'], env);
  expect((await fuselineHere(['load'], env)).out).toContain('load 1, set by wu until somebody clears it\n');
  const cleared = await fuselineHere(['load', 'clear', '--actor', 'wu'], env);
  expect(cleared).toEqual({ code: 0, err: '', out: 'the load is what the workers measure; it was set to 1\n' });
  expect((await fuselineHere(['load', 'clear'], env)).out).toBe('nobody had set the load\n');

  const trail = (await json(['audit'], env)).filter(({ action }: { action: string }) => action.startsWith('load'));
  expect(trail).toMatchObject([
    { action: 'load-set', actor: 'li@desk', note: '大促', to: '0.8' },
    { action: 'load-set', actor: 'wu', from: '0.8', to: '1', until: -1 },
    { action: 'load-clear', actor: 'wu', from: '1' },
  ]);
  expect(Math.abs(trail[0].until - trail[0].at - 600_000)).toBeLessThan(2_000);
  const { out } = await fuselineHere(['audit'], env);
  expect(out).toMatch(/li@desk +load set +0\.8 until .* +"大促"$/m);
  expect(out).toMatch(/wu +load left to the workers +1$/m);
});

it('shows what dynamic policies are judged by now in load, status and rules explain, and leaves the others alone', async () => {
  const { env, client, keys } = place();
  await setRules({ client, keys }, { expectedVersion: 0, document: DYNAMIC, actor: 't' });
  expect((await json(['status'], env)).load).toEqual({ factors: { window: 1, rate: 1 } });
  await fuselineHere(['load', 'set', '0.9', '--actor', 'ann'], env);
  const to = { factors: { window: 1.5, rate: 1.2 }, load: 0.9, source: 'hand' } as const;
  expect(await stepLoad(client, keys, await readLoad(client, keys), to)).toBe(true);

  const shown = await json(['load'], env);
  expect(shown).toMatchObject({
    dynamic: true,
    measured: null,
    hand: { load: 0.9, actor: 'ann' },
    factors: to.factors,
  });
  expect(shown.nextStepInMs).toBeGreaterThan(50_000);
  expect(shown.channels).toEqual([
    { channel: 'ALIPAY', window: ['20', '30'], successRate: [70, 64] },
    {
      channel: 'sms-*',
      window: ['kind time, span 10s, slots 10, minCalls 5', 'kind time, span 15s, slots 15, minCalls 7'],
      successRate: [70, 64],
    },
    expect.objectContaining({ channel: 'LOGIN', successRate: [70, 70] }),
  ]);
  expect((await fuselineHere(['load'], env)).out).toMatch(/^ALIPAY +20 +30 +70 +64$/m);
  expect((await fuselineHere(['status'], env)).out).toContain(
    'load 0.9, set by ann until somebody clears it: windows × 1.5, tolerated failures × 1.2\n',
  );
  const explained = async (channel: string, ...more: string[]) =>
    (await fuselineHere(['rules', 'explain', channel, ...more], env)).out;
  expect(await explained('ALIPAY')).toContain(
    '\n- now windows × 1.5, tolerated failures × 1.2: window 30, successRate 64\n- at most windows × 5.06, tolerated failures × 2.07: window 101, successRate 37.8',
  );
  expect(await explained('LOGIN')).toContain('- dynamic changes nothing here: a sequential test');
  expect(await explained('BANK')).not.toContain('Under load');
  const file = await rulesFile(DYNAMIC);
  expect(await explained('ALIPAY', '--file', file)).toMatch(/Under load\n- at most windows × 5\.06/);
});

it('says that the load changes nothing where no policy is dynamic, and status keeps silent then', async () => {
  const { env, client, keys } = place();
  await setRules(
    { client, keys },
    { expectedVersion: 0, document: { mode: 'on', defaults: { window: 10 } }, actor: 't' },
  );
  expect(await json(['status'], env)).not.toHaveProperty('load');
  const { code, err } = await fuselineHere(['load', 'set', '.5'], env);
  expect({ code, err }).toEqual({
    code: 0,
    err: 'fuseline: warning: no policy of the rules is dynamic: the load changes nothing\n',
  });
  expect((await fuselineHere(['load'], env)).out).toContain('no policy of the rules is dynamic');
});

it.each(['2', '1.5', '80%', '0,8', 'high', '', '0.12345', '-0.1', 'NaN'])(
  'refuses %j for a load and writes nothing',
  async (text) => {
    const { env, client, keys } = place();
    expect((await fuselineHere(['load', 'set', text], env)).code).toBe(2);
    expect(await client.exists(keys.load)).toBe(0);
  },
);
