import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { sharedRedisUrl, uniquePrefix } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';
import { fuseline, fuselineHere } from './run.js';

async function place() {
  const dir = await mkdtemp(join(tmpdir(), 'fuseline-cli-'));
  releaseAtEnd(() => rm(dir, { recursive: true, force: true }));
  const file = async (name: string, text: string) => {
    await writeFile(join(dir, name), text);
    return join(dir, name);
  };
  return { dir, file, env: { FUSELINE_REDIS_URL: sharedRedisUrl(), FUSELINE_PREFIX: uniquePrefix() } };
}

it('writes rules to begin with that are valid and hide nothing, and never over a file that is there', async () => {
  const { dir, env } = await place();
  const path = join(dir, 'rules.yaml');
  expect((await fuselineHere(['rules', 'init', path], env)).code).toBe(0);
  expect(await fuselineHere(['rules', 'check', path])).toMatchObject({
    code: 0,
    out: `${path} is valid: 2 channels, 0 receivers, 0 routes\n`,
    err: '',
  });
  const before = await readFile(path, 'utf8');
  expect(await fuselineHere(['rules', 'init', path], env)).toMatchObject({
    code: 1,
    out: '',
    err: `fuseline: ${path} exists already: it is left as it is\n`,
  });
  expect(await readFile(path, 'utf8')).toBe(before);
});

it('9.04 check names every broken item and ends with 1; the file is not used in part', async () => {
  const { file, env } = await place();
  const path = await file('bad.yaml', 'mode: on\ndefaults: { window: 0 }\nchannels: { A: { successRate: 170 } }\n');
  const checked = await fuselineHere(['rules', 'check', path]);
  expect(checked).toMatchObject({ code: 1, out: '' });
  expect(checked.err).toMatch(/bad\.yaml: defaults\.window: .*got 0/);
  expect(checked.err).toMatch(/bad\.yaml: channels\.A\.successRate: .*got 170/);
  expect((await fuselineHere(['rules', 'set', path], env)).code).toBe(1);
  expect(await fuselineHere(['rules', 'get'], env)).toMatchObject({ code: 1, out: '' });
  expect((await fuselineHere(['rules', 'check', '/nowhere'])).err).toBe('fuseline: /nowhere cannot be read (ENOENT)\n');
});

it('sets, shows, compares and rolls back; what somebody else changed meanwhile is a conflict', async () => {
  const { file, env } = await place();
  const first = await file('1.yaml', 'mode: observe\n');
  const second = await file('2.yaml', 'mode: on\ndefaults: { window: 7 }\n');
  expect(await fuselineHere(['rules', 'set', first, '--expect-version', '0', '--actor', 'a'], env)).toMatchObject({
    code: 0,
  });
  const set = await fuselineHere(['rules', 'set', second, '--expect-version', '1', '--actor', 'b'], env);
  expect(set.out).toContain('mode: "observe" -> "on"');
  expect(set.out).toMatch(/version 2 is in force\n$/);
  expect(await fuselineHere(['rules', 'set', first, '--expect-version', '1'], env)).toMatchObject({
    code: 1,
    out: '',
    err: 'fuseline: nothing was changed: version 2 is in force, set by b, not the expected one; look at it and try again\n',
  });
  expect((await fuselineHere(['rules', 'set', second], env)).out).toBe(
    'version 2 says the same already: nothing changed\n',
  );
  const got = await fuselineHere(['rules', 'get'], env);
  expect(got.out).toBe('mode: on\ndefaults:\n  window: 7\n');
  expect(got.err).toMatch(/^version 2, set by b at /);
  expect((await fuseline(['rules', 'set', '-'], env, got.out)).out).toContain('nothing changed');

  expect(await fuselineHere(['rules', 'rollback', '9'], env)).toMatchObject({ code: 1, out: '' });
  expect((await fuselineHere(['rules', 'rollback', '1', '--actor', 'c'], env)).out).toMatch(/version 3 is in force\n$/);
  const history = JSON.parse((await fuselineHere(['rules', 'history', '--json'], env)).out);
  expect(history.map(({ version, actor, current }: Record<string, unknown>) => [version, actor, current])).toEqual([
    [3, 'c', true],
    [2, 'b', false],
    [1, 'a', false],
  ]);
  expect((await fuselineHere(['rules', 'history'], env)).out).toMatch(/^3 .* c +in force$/m);
});

it('prints no secret unless asked to, and does not take its mask for one', async () => {
  const { file, env } = await place();
  const path = await file(
    'r.yaml',
    'mode: on\nreceivers: { ops: { type: webhook, url: "https://example.com/hook/s3cret", secret: t0psecret } }\nroutes: [ { to: [ops] } ]\n',
  );
  const set = await fuselineHere(['rules', 'set', path], env);
  expect(set.code).toBe(0);
  expect(set.err).toContain('written in clear');
  const got = await fuselineHere(['rules', 'get'], env);
  const history = await fuselineHere(['rules', 'history', '--json'], env);
  for (const { out, err } of [set, got, history]) expect(out + err).not.toMatch(/s3cret|t0psecret/);
  expect(got.err).toContain('secrets are masked');
  const again = await fuseline(['rules', 'set', '-'], env, got.out);
  expect(again).toMatchObject({ code: 1, out: '' });
  expect(again.err).toContain('receivers.ops holds a masked secret');
  expect((await fuselineHere(['rules', 'get', '--show-secrets'], env)).out).toMatch(/s3cret[\s\S]*t0psecret/);
});

it('9.05 does not switch every block off by an empty file, unless that is confirmed', async () => {
  const { file, env } = await place();
  await fuselineHere(['rules', 'set', await file('1.yaml', 'mode: on\n')], env);
  const empty = await file('empty.yaml', '');
  expect(await fuselineHere(['rules', 'set', empty], env)).toMatchObject({ code: 1, out: '' });
  expect((await fuselineHere(['rules', 'set', empty, '--confirm-empty'], env)).code).toBe(0);
});

it('warns when a channel that is blocked is judged no more, because programs that know only EXISTS keep out', async () => {
  const { file, env } = await place();
  const judged = await file('on.yaml', 'mode: on\n');
  const off = await file('off.yaml', 'mode: on\nchannels: { ALIPAY: { mode: off } }\n');
  await fuselineHere(['rules', 'set', judged], env);
  for (const channel of ['ALIPAY', 'WECHAT']) await fuselineHere(['block', channel, '--for', '10m'], env);
  const set = await fuselineHere(['rules', 'set', off], env);
  expect(set).toMatchObject({ code: 0 });
  expect(set.err).toMatch(/warning: ALIPAY is in mode off and still has its block key: .* fuseline unblock ALIPAY\n$/);
  expect(set.err).not.toContain('WECHAT');
});
