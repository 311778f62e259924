import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { table, widthOf } from '../../src/cli/output.js';
import { fuseline, fuselineHere } from './run.js';

it('tells its version and how it is used, on standard output', async () => {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  expect(await fuseline(['--version'])).toEqual({ code: 0, out: `${version}\n`, err: '' });
  const help = await fuseline(['--help']);
  expect(help).toMatchObject({ code: 0, err: '' });
  for (const command of [
    'start',
    'publish',
    'status',
    'block',
    'unblock',
    'load',
    'audit',
    'groups',
    'rules',
    'config',
  ])
    expect(help.out).toMatch(new RegExp(`^  ${command}\\b`, 'm'));
  expect(help.out).toContain('FUSELINE_REDIS_URL');
});

it.each([
  [['blok'], /^fuseline: unknown command 'blok'/],
  [['block'], /missing required argument 'channel'/],
  [['block', 'a{b}'], /channel must not hold "\{", "\}" or control characters, got "a\{b\}"/],
  [['block', ''], /channel must not be empty/],
  [['block', 'A', '--for', '5'], /--for must be a whole number with a unit.*got "5"/],
  [['block', 'A', '--for', '0'], /--for must be .* more than 0, got "0"/],
  [['block', 'A', '--reason', 'x\u001b[31m'], /--reason must not hold control characters/],
  [['block', 'A', '--reason', ''], /--reason must have 1 to 200 characters, got 0/],
  [['unblock', 'A', '--for', 'forever'], /--for must be/],
  [['load', 'set', '80%'], /the load must be a number from 0 to 1 with up to four decimals, got "80%"/],
  [['load', 'set', '0.8', '--for', '0'], /--for must be .* more than 0, got "0"/],
  [['start', 'everything'], /'everything' is invalid.*outcomes, recovery, alerts/],
  [['status', '--top', 'x'], /--top must be a whole number, got "x"/],
  [['status', '--nope'], /unknown option '--nope'/],
  [['publish', '--channel', 'A'], /one of --success and --failure/],
  [['publish', '--channel', 'A', '--success', '--failure'], /one of --success and --failure/],
  [['publish', '--success'], /needs --channel/],
  [['publish', '--channel', 'A', '--success', '--duration', '2h'], /durationMs/],
  [['rules', 'rollback', 'x'], /must be a whole number, got "x"/],
  [['config', 'show', '--http-port', '99999'], /--http-port: must be a whole number from 0 to 65535, got "99999"/],
  [['config', 'show', '--config', '/nowhere.yaml'], /\/nowhere.yaml cannot be read \(ENOENT\)/],
])('a wrong command line ends with 2 and one line that says the rule and the value: %j', async (args, expected) => {
  const { code, out, err } = await fuselineHere(args);
  expect(err).toMatch(expected);
  expect(err).toMatch(/^fuseline: /);
  expect({ code, out }).toEqual({ code: 2, out: '' });
  expect(err).not.toContain(' at ');
});

it('config show tells value and origin of every setting, and masks secrets', async () => {
  const env = { FUSELINE_REDIS_URL: 'redis://user:secret@h:1', FUSELINE_PREFIX: 'p:' };
  const { code, out } = await fuselineHere(['config', 'show', '--shards', '8'], env);
  expect(code).toBe(0);
  expect(out).toMatch(/^redisUrl +redis:\/\/user:\*\*\*@h:1 +environment +FUSELINE_REDIS_URL/m);
  expect(out).toMatch(/^logRedisUrl +redis:\/\/user:\*\*\*@h:1 +redisUrl/m);
  expect(out).toMatch(/^shards +8 +flag/m);
  expect(out).toMatch(/^freshFor +5m +default/m);
  expect(out).not.toContain('secret');
  const json = JSON.parse((await fuselineHere(['config', 'show', '--json'], env)).out);
  expect(json.settings).toContainEqual(expect.objectContaining({ name: 'prefix', value: 'p:', origin: 'environment' }));
});

it('warns about a variable that is no setting, on standard error', async () => {
  const { code, out, err } = await fuseline(['config', 'show', '--json'], { FUSELINE_REDIS: 'redis://h:1' });
  expect(code).toBe(0);
  expect(err).toMatch(/^fuseline: warning: FUSELINE_REDIS is not a setting/);
  expect(() => JSON.parse(out)).not.toThrow();
});

it('aligns columns by what a terminal shows, and lets no stored text control it', () => {
  expect([widthOf('微信支付'), widthOf('a'), widthOf('é'), widthOf('한글'), widthOf('ＡＢ'), widthOf('🚦')]).toEqual([
    8, 1, 1, 4, 4, 2,
  ]);
  const text = table(
    ['NAME', 'X'],
    [
      ['微信支付', '1'],
      ['ALIPAY', '2'],
      ['\u001b[2Jx', '3'],
    ],
  );
  expect(text.split('\n')).toEqual(['NAME      X', '微信支付  1', 'ALIPAY    2', '?[2Jx     3']);
});
