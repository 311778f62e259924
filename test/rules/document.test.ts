import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { describePolicy } from '../../src/domain/describe.js';
import { DEFAULT_POLICY } from '../../src/domain/policy.js';
import type { Rules } from '../../src/domain/rules.js';
import { parseRules } from '../../src/rules/parse.js';

const EXAMPLE = `
version: 1
mode: on                                    # on | observe | off
defaults: { window: 10, successRate: 70, block: 30m, hold: 30m }
policies:
  core: { window: { kind: time, span: 30s, slots: 30, minCalls: 50 }, successRate: 50, block: { for: 30s, growth: 2, max: 10m }, halfOpen: { percent: 10 } }
channels:
  ALIPAY: { policy: core, group: pay, ignore: [USER_CANCELLED, 'CARD_*'] }
  'sms-*': { successRate: 80, group: sms }
groups: { pay: { minVisible: 1 } }
receivers:
  ops: { type: dingtalk, url: env:DING_URL, secret: env:DING_SECRET, locale: zh-CN, timeZone: Asia/Shanghai, mentions: ['13800000000'] }
routes: [ { match: { group: pay }, to: [ops] } ]
`;

function accepted(document: unknown): Rules {
  const parsed = parseRules(document);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems));
  return parsed.rules;
}

function refused(document: unknown): readonly { path: string; message: string }[] {
  const parsed = parseRules(document);
  if (parsed.ok) throw new Error('was accepted');
  return parsed.problems;
}

const warned = (document: unknown) => {
  const parsed = parseRules(document);
  return parsed.ok ? parsed.warnings : [];
};

describe('the example document', () => {
  it('is accepted whole and resolved to integers and milliseconds', () => {
    const rules = accepted(EXAMPLE);
    expect(rules.version).toBe(1);
    expect(rules.policyFor('ALIPAY')).toEqual({
      mode: 'on',
      window: { kind: 'time', spanMs: 30_000, slots: 30, minCalls: 50 },
      successRate: 5_000,
      block: { forMs: 30_000, growth: 2, maxMs: 600_000 },
      holdMs: 1_800_000,
      ignore: ['USER_CANCELLED', 'CARD_*'],
      halfOpen: { steps: [1_000], permits: 1, close: 3, waitMs: 30_000, reopens: false },
      group: 'pay',
    });
    expect(rules.policyFor('sms-aliyun')).toMatchObject({ successRate: 8_000, group: 'sms', window: { size: 10 } });
    expect(rules.policyFor('微信支付')).toMatchObject({ mode: 'on', successRate: 7_000, block: { forMs: 1_800_000 } });
    expect(rules.minVisible('pay')).toBe(1);
    expect(rules.minVisible('sms')).toBe(0);
    expect(rules.namedChannels).toEqual(['ALIPAY']);
    expect(rules.receivers).toEqual([
      {
        name: 'ops',
        type: 'dingtalk',
        url: 'env:DING_URL',
        secret: 'env:DING_SECRET',
        locale: 'zh-CN',
        timeZone: 'Asia/Shanghai',
        mentions: ['13800000000'],
        timeoutMs: 10_000,
      },
    ]);
    expect(rules.routes).toEqual([{ match: { group: 'pay' }, to: ['ops'] }]);
  });

  it('judges all that it accepts: the example has no warning', () => {
    expect(warned(EXAMPLE)).toEqual([]);
  });

  it('means the same as JSON', () => {
    expect(accepted(JSON.stringify(accepted(EXAMPLE).document)).document).toEqual(accepted(EXAMPLE).document);
  });
});

describe('the flat form', () => {
  it('is accepted as it is, and missing fields take 10, 70, 30 and off', () => {
    const on = accepted('{"switchMode":"on","windowSize":5,"successRate":62.25,"blockMinutes":2}');
    expect(on.policyFor('any')).toMatchObject({
      mode: 'on',
      window: { size: 5 },
      successRate: 6_225,
      block: { forMs: 120_000 },
    });
    expect(accepted({ windowSize: 20 }).policyFor('any')).toMatchObject({
      mode: 'off',
      window: { size: 20 },
      successRate: 7_000,
      block: { forMs: 1_800_000 },
    });
  });

  it('takes a list of whole names, so that ALI in the list is not ALIPAY', () => {
    const rules = accepted('switchMode: ",ALIPAY,WECHAT,"');
    expect(['ALIPAY', 'WECHAT', 'ALI', 'PAY', 'ALIPAY,WECHAT', ''].map((name) => rules.policyFor(name).mode)).toEqual([
      'on',
      'on',
      'off',
      'off',
      'off',
      'off',
    ]);
    expect(rules.namedChannels).toEqual(['ALIPAY', 'WECHAT']);
  });

  it.each([['ON'], ['ALIPAY'], [',,'], [''], [true], [null], [',A{B},'], [',SMS_*,']])(
    'refuses switchMode %j',
    (switchMode) => {
      expect(refused({ switchMode })[0]).toMatchObject({ path: 'switchMode' });
    },
  );

  it('is not mixed with the full form', () => {
    expect(refused({ switchMode: 'on', channels: {} })).toEqual([
      { path: 'channels', message: '"channels" is not a known key' },
    ]);
  });
});

describe('the layers of a policy', () => {
  it('take each key whole from the highest layer that has it', () => {
    const rules = accepted({
      mode: 'on',
      defaults: { window: 7, block: { for: '1m', growth: 3, max: '9m' }, ignore: ['A'] },
      policies: { p: { successRate: 90, block: '2m', ignore: ['P'] } },
      channels: { X: { policy: 'p', ignore: ['B'] }, Y: { mode: 'off' } },
    });
    expect(rules.policyFor('X')).toMatchObject({
      window: { size: 7 },
      successRate: 9_000,
      block: { forMs: 120_000, growth: 1, maxMs: DEFAULT_POLICY.block.maxMs },
      ignore: ['B'],
    });
    expect(rules.policyFor('Y')).toMatchObject({
      mode: 'off',
      block: { forMs: 60_000, growth: 3, maxMs: 540_000 },
      ignore: ['A'],
    });
  });

  it('let the exact name beat every pattern, and of patterns the first in the document', () => {
    const rules = accepted(
      'mode: on\nchannels: { "s*": { successRate: 1 }, "sms-*": { successRate: 2 }, sms-a: { successRate: 3 }, "*": { successRate: 4 } }',
    );
    expect(['sms-a', 'sms-b', 'x', 's'].map((name) => rules.policyFor(name).successRate)).toEqual([300, 100, 400, 100]);
  });

  it('meet in one channel, however its name is composed', () => {
    expect(
      accepted({ mode: 'on', channels: { 'Cafe\u0301': { successRate: 1 } } }).policyFor('Caf\u00e9').successRate,
    ).toBe(100);
    expect(refused({ channels: { 'Cafe\u0301': {}, 'Caf\u00e9': {} } })[0]?.message).toContain('same channel twice');
  });

  it('give channels under one rule one object, however many other names were asked for', () => {
    const rules = accepted({ mode: 'on', channels: { 'a*': { successRate: 5 } } });
    const first = rules.policyFor('a-0');
    for (let i = 0; i < 50_000; i += 1) rules.policyFor(`order-${i}`);
    expect(rules.policyFor('a-1')).toBe(first);
  });

  it('1.04 keep the window size of the layer below, show it, and tell a window of 5 from one of 100', () => {
    const rules = accepted({
      mode: 'on',
      defaults: { window: 100 },
      channels: { A: { successRate: 50 }, B: { successRate: 50, window: 5 } },
    });
    expect(describePolicy(rules.policyFor('A'))).toMatchObject({
      window: 100,
      successRate: 50,
      block: '30m',
      hold: '30m',
      mode: 'on',
    });
    expect(describePolicy(rules.policyFor('B'))).toMatchObject({ window: 5, successRate: 50 });
    expect(rules.policyFor('A').window).toEqual({ kind: 'count', size: 100 });
    expect(rules.policyFor('B').window).toEqual({ kind: 'count', size: 5 });
  });
});

it('knows which groups hold channels that it does not name', () => {
  const parsed = parseRules({
    mode: 'on',
    channels: { A: { group: 'pay' }, 'B*': { group: 'sms' }, 'C*': {}, D: { group: 'sms' } },
  });
  if (!parsed.ok) throw new Error('was refused');
  expect([...parsed.rules.patternGroups]).toEqual(['sms']);
});

describe('a bad document', () => {
  it.each([
    [{ windowSize: 5, minCalls: 10 }, 'minCalls', ['minCalls 10', 'windowSize 5']],
    [{ defaults: { window: 5, minCalls: 10 } }, 'defaults.minCalls', ['minCalls 10', 'window 5']],
    [
      { channels: { A: { window: { kind: 'count', size: 5, minCalls: 10 } } } },
      'channels.A.window.minCalls',
      ['minCalls 10', 'size 5'],
    ],
  ])('1.03 is refused with both field names when minCalls goes with a count window: %j', (document, path, names) => {
    const [problem] = refused(document);
    expect(problem?.path).toBe(path);
    for (const name of names) expect(problem?.message).toContain(name);
  });

  it.each([
    ['0.8', '"0.8"'],
    ['80%', '"80%"'],
    ['80', '"80"'],
    [null, 'null'],
    [1e-9, '1e-9'],
    [70.125, '70.125'],
    [-1, '-1'],
    [100.01, '100.01'],
    [true, 'true'],
    [[70], '[70]'],
  ])('1.06 is refused with path and value when successRate is %j', (successRate, shown) => {
    for (const [document, path] of [
      [{ defaults: { successRate } }, 'defaults.successRate'],
      [{ channels: { 'sms-*': { successRate } } }, 'channels.sms-*.successRate'],
      [{ successRate }, 'successRate'],
    ] as const) {
      const inJson = refused(JSON.stringify(document));
      expect(inJson).toEqual(refused(document));
      expect(inJson).toHaveLength(1);
      expect(inJson[0]).toMatchObject({ path });
      expect(inJson[0]?.message).toMatch(/percentage.*0 to 100.*two decimals/);
      expect(inJson[0]?.message.endsWith(`, got ${shown}`)).toBe(true);
    }
  });

  it('1.06 does not exist for any rate of two decimals, and each survives saving and loading bit for bit', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10_000 }), (hundredths) => {
        const successRate = hundredths / 100;
        const rules = accepted(JSON.stringify({ defaults: { successRate } }));
        expect(Object.is(rules.document.defaults?.successRate, successRate)).toBe(true);
        expect(rules.policyFor('any').successRate).toBe(hundredths);
        expect(describePolicy(rules.policyFor('any')).successRate).toBe(successRate);
      }),
    );
  });

  it.each([0, 1_001, 2.5, '10', null, 1e9])('is refused, not cut, when the window is %j', (window) => {
    expect(refused({ defaults: { window } })).toMatchObject([{ path: 'defaults.window' }]);
    expect(refused({ defaults: { window: { kind: 'count', size: window } } })).toMatchObject([
      { path: 'defaults.window.size' },
    ]);
  });

  it('has windows of 1 and of 1,000 accepted, and a count window written out', () => {
    expect(
      [1, 1_000, { kind: 'count', size: 3 }].map((window) => accepted({ defaults: { window } }).policyFor('x').window),
    ).toEqual([1, 1_000, 3].map((size) => ({ kind: 'count', size })));
  });

  it.each([30, '30', '30 m', '0', '-5m', '1e3s', '0.5h', '367d', null])('is refused when a block lasts %j', (block) => {
    expect(refused({ defaults: { block } })).toMatchObject([{ path: 'defaults.block' }]);
  });

  it('is refused as a whole, and names every broken item, by its place in a list too', () => {
    const routes = Array.from({ length: 10 }, (_, i) =>
      i === 3 ? { to: ['ops'], app: 'pay', gmtModified: 'x' } : { to: ['ops'] },
    );
    const receivers = { ops: { type: 'webhook', url: 'https://example.com/x' } };
    expect(refused({ receivers, routes })).toEqual([
      { path: 'routes[3].app', message: 'item 4 of routes: "app" is not a known key' },
      { path: 'routes[3].gmtModified', message: 'item 4 of routes: "gmtModified" is not a known key' },
    ]);
  });

  it('is refused when a name leads nowhere', () => {
    expect(refused({ channels: { A: { policy: 'toString' } } })[0]).toMatchObject({ path: 'channels.A.policy' });
    expect(refused({ routes: [{ to: ['ops'] }] })[0]).toMatchObject({ path: 'routes[0].to' });
  });

  it.each([
    { mode: true },
    { mode: 'ON' },
    { unknown: 1 },
    { channels: [] },
    { channels: { A: null } },
    { channels: { 'a{b': {} } },
    { channels: { ' a': {} } },
    { channels: { ['x'.repeat(129)]: {} } },
    { groups: { pay: { minVisible: -1 } } },
    { receivers: { Ops: { type: 'slack', url: 'env:X' } } },
    { receivers: { ops: { type: 'email', url: 'env:X' } } },
    { receivers: { ops: { type: 'slack', url: 'file:relative' } } },
    { receivers: { ops: { type: 'slack', url: 'env:X', timeZone: 'Mars/Base' } } },
    { receivers: { ops: { type: 'slack', url: 'env:X', timeout: '2m' } } },
    { routes: [{ to: [] }] },
    { routes: [{ match: { kinds: ['exploded'] }, to: ['ops'] }] },
    { defaults: { block: { for: '10m', max: '1m' } } },
    { defaults: { block: { growth: 2 } } },
    { defaults: { window: { kind: 'sliding' } } },
    [{ mode: 'on' }],
    42,
    'just text',
  ])('is refused: %j', (document) => {
    const problems = refused(document);
    expect(problems).toHaveLength(1);
    expect(problems[0]?.message).not.toContain('Invalid input');
  });

  it('refuses a route for what nobody is told of, and says what there is', () => {
    const [problem] = refused({ routes: [{ match: { kinds: ['blocked', 'half-open'] }, to: ['ops'] }] });
    expect(problem?.message).toMatch(
      /people are told of blocked, relapsed, recovered, held, .*, floor, got "half-open"$/,
    );
  });

  it('never has a secret of a receiver in its problems', () => {
    const hush = 'https://user:hush@example.com/robot?token=hush';
    for (const receivers of [
      hush,
      { ops: hush },
      { ops: { type: hush.length, url: hush, secret: hush.repeat(99), webhook: hush, mentions: hush } },
    ]) {
      expect(JSON.stringify(refused({ receivers }))).not.toContain('hush');
    }
    expect(JSON.stringify(refused(`receivers: { ops: { url: ${hush}, url: ${hush} } }`))).not.toContain('hush');
    expect(JSON.stringify(refused(`receivers: { ops: [ ${hush}`))).not.toContain('hush');
    expect(JSON.stringify(refused(hush))).not.toContain('hush');
  });

  it('is refused for keys that JavaScript takes for something else', () => {
    expect(refused('{"channels":{"__proto__":{"mode":"off"}}}')[0]?.message).toContain('__proto__');
    const rules = accepted('{"mode":"on","channels":{"constructor":{"successRate":1},"toString":{"successRate":2}}}');
    expect(['constructor', 'toString', 'valueOf'].map((name) => rules.policyFor(name).successRate)).toEqual([
      100, 200, 7_000,
    ]);
  });

  it('is refused at once when it is too large, too deep, or grows when read', () => {
    const many = Object.fromEntries(Array.from({ length: 10_001 }, (_, i) => [`C${i}`, {}]));
    expect(refused({ channels: many })).toEqual([
      { path: 'channels', message: expect.stringContaining('at most 10000 entries') },
    ]);
    expect(refused({ channels: { A: { ignore: ['x'.repeat(2 << 20)] } } })[0]?.message).toContain(
      'at most 1048576 bytes',
    );
    expect(refused(`# ${'x'.repeat(2 << 20)}`)[0]?.message).toContain('at most 1048576 bytes');
    expect(refused('['.repeat(100_000))).toHaveLength(1);
    const layers = Array.from({ length: 12 }, (_, i) => `l${i + 1}: &l${i + 1} [${Array(9).fill(`*l${i}`).join(',')}]`);
    expect(refused(['l0: &l0 [x]', ...layers].join('\n'))[0]?.message).toContain('references');
    const circle: Record<string, unknown> = {};
    circle.channels = circle;
    expect(refused(circle)[0]?.message).toContain('plain data');
  });

  it('is refused when a key is written twice, in YAML and in JSON, with line and column', () => {
    expect(refused('{"channels":{"A":{},"B":{},"A":{}}}')).toEqual([
      { path: 'line 1, column 28', message: 'this key is written twice in one mapping' },
    ]);
    expect(refused('mode: on\nmode: off\n')[0]?.path).toBe('line 2, column 1');
    expect(refused('mode: on\n---\nmode: off\n')).toHaveLength(1);
  });

  it('never throws, whatever value it is', () => {
    fc.assert(
      fc.property(fc.anything(), (value) => {
        expect(typeof parseRules(value).ok).toBe('boolean');
      }),
    );
  });
});

describe('no document', () => {
  it.each([undefined, null, '', '  \n', 'null', '# nothing', [], '[]', {}, '{}'])(
    '9.05 gives the defaults in mode observe, with a warning: %j',
    (nothing) => {
      const rules = accepted(nothing);
      expect(rules.empty).toBe(true);
      expect(rules.version).toBe(0);
      expect(rules.policyFor('any')).toEqual(DEFAULT_POLICY);
      expect(rules.policyFor('any').mode).toBe('observe');
      expect(warned(nothing)).toEqual([{ path: '', message: expect.stringContaining('every channel is observed') }]);
    },
  );

  it('is not the same as one without a mode, which observes too, and says so', () => {
    const document = { defaults: { window: 5 } };
    expect(accepted(document).policyFor('any')).toMatchObject({ mode: 'observe', window: { size: 5 } });
    expect(warned(document)).toMatchObject([{ path: 'mode' }]);
  });

  it('nor is one whose secret is written in clear or whose route goes to an unknown group: both are warned about', () => {
    const document = {
      mode: 'on',
      receivers: { ops: { type: 'dingtalk', url: 'env:X', secret: 'SEChush' } },
      routes: [{ match: { group: 'payy' }, to: ['ops'] }],
    };
    expect(warned(document)).toMatchObject([{ path: 'receivers.ops.secret' }, { path: 'routes[0].match.group' }]);
    expect(JSON.stringify(warned(document))).not.toContain('hush');
  });
});
