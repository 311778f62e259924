import { describe, expect, it } from 'vitest';
import { loadScript, runScript } from '../../src/redis/script.js';
import { maskSecrets } from '../../src/rules/diff.js';
import { getRules, HISTORY_MOST, rollbackRules, rulesHistory, setRules } from '../../src/rules/store.js';
import { readStored, sha1 } from '../../src/rules/stored.js';
import { openStore } from './support.js';

const document = (window: number) => ({ mode: 'on', defaults: { window } });

describe('setting the rules', () => {
  it('counts the version up, keeps the document as written, and tells what changed', async () => {
    const store = await openStore();
    const text = 'mode: on\nreceivers: { ops: { type: slack, url: env:SLACK_URL } }\n';
    expect(await setRules(store, { expectedVersion: 0, document: text, actor: 'ann' })).toMatchObject({
      ok: true,
      version: 1,
      changed: true,
    });
    const changed = await setRules(store, {
      expectedVersion: 1,
      document: { mode: 'on', channels: { A: { window: 5 } } },
      actor: 'bob',
    });
    expect(changed).toEqual({
      ok: true,
      version: 2,
      changed: true,
      warnings: [],
      diff: [
        { path: 'receivers', before: { ops: { type: 'slack', url: 'env:SLACK_URL' } }, after: undefined },
        { path: 'channels', before: undefined, after: { A: { window: 5 } } },
      ],
    });
    expect(await getRules(store)).toMatchObject({
      version: 2,
      actor: 'bob',
      document: { mode: 'on', channels: { A: { window: 5 } } },
    });
    expect(JSON.parse((await store.client.get(store.keys.config)) ?? '')).toMatchObject({
      v: 1,
      version: 2,
      actor: 'bob',
    });
  });

  it('lets one of many win who all looked at the same version', async () => {
    const store = await openStore();
    await setRules(store, { expectedVersion: 0, document: document(1), actor: 'first' });
    const rivals = Array.from({ length: 20 }, (_, i) =>
      setRules(store, { expectedVersion: 1, document: document(i + 2), actor: `rival ${i}` }),
    );
    const results = await Promise.all(rivals);
    const winners = results.flatMap((result, i) => (result.ok ? [i] : []));
    expect(winners).toHaveLength(1);
    expect(results.filter((result) => !result.ok && result.reason === 'conflict' && result.version === 2)).toHaveLength(
      19,
    );
    expect(await getRules(store)).toMatchObject({ version: 2, actor: `rival ${winners[0]}` });
  });

  it('sees a foreign hand that writes between reading and putting, though no version changed', async () => {
    const { client, keys } = await openStore();
    const script = loadScript('put-rules');
    const put = (seen: string, text: string) => runScript(client, script, [keys.config], [seen, text]);
    await client.set(keys.config, 'mode: on');
    expect(await put(sha1('mode: off'), 'new')).toBe(0);
    expect(await put('', 'new')).toBe(0);
    expect(await put(sha1('mode: on'), 'new')).toBe(1);
    expect(await put(sha1('mode: on'), 'new')).toBe(1);
    expect(await client.get(keys.config)).toBe('new');
  });

  it('refuses an old version, and changes nothing when the document says the same', async () => {
    const store = await openStore();
    await setRules(store, { expectedVersion: 0, document: document(5), actor: 'ann' });
    expect(await setRules(store, { expectedVersion: 0, document: document(6), actor: 'bob' })).toEqual({
      ok: false,
      reason: 'conflict',
      version: 1,
      actor: 'ann',
    });
    expect(await setRules(store, { expectedVersion: 1, document: document(5), actor: 'bob' })).toMatchObject({
      ok: true,
      version: 1,
      changed: false,
    });
    expect(await getRules(store)).toMatchObject({ actor: 'ann' });
  });

  it('9.04 refuses a bad document as a whole, and the one in force stays', async () => {
    const store = await openStore();
    await setRules(store, { expectedVersion: 0, document: document(5), actor: 'ann' });
    const channels = Object.fromEntries(
      Array.from({ length: 10 }, (_, i) => [`C${i + 1}`, i === 3 ? { window: 0 } : { window: 5 }]),
    );
    const result = await setRules(store, { expectedVersion: 1, document: { channels, app: 'pay' }, actor: 'bob' });
    expect(result).toEqual({
      ok: false,
      reason: 'invalid',
      problems: [
        { path: 'channels.C4.window', message: 'window must be a whole number from 1 to 1000, got 0' },
        { path: 'app', message: '"app" is not a known key' },
      ],
    });
    expect(await getRules(store)).toMatchObject({ version: 1, document: document(5) });
  });

  it.each([null, '', '[]', {}])('9.05 refuses an empty document (%j) unless it is confirmed', async (nothing) => {
    const store = await openStore();
    await setRules(store, { expectedVersion: 0, document: document(5), actor: 'ann' });
    expect(await setRules(store, { expectedVersion: 1, document: nothing, actor: 'bob' })).toEqual({
      ok: false,
      reason: 'empty',
    });
    expect(await getRules(store)).toMatchObject({ version: 1 });
    expect(
      await setRules(store, { expectedVersion: 1, document: nothing, actor: 'bob', confirmEmpty: true }),
    ).toMatchObject({ ok: true, version: 2 });
    expect(await getRules(store)).toMatchObject({ version: 2, confirmedEmpty: true });
  });

  it('takes over from a document that somebody wrote by hand, and keeps it in the history', async () => {
    const store = await openStore();
    await setRules(store, { expectedVersion: 0, document: document(5), actor: 'ann' });
    const flat = '{"switchMode":"on","windowSize":10,"successRate":70,"blockMinutes":30}';
    await store.client.set(store.keys.config, flat);
    expect(await getRules(store)).toMatchObject({ version: 0, document: { switchMode: 'on' } });
    const result = await setRules(store, { expectedVersion: 0, document: document(6), actor: 'bob' });
    expect(result).toMatchObject({ ok: true, version: 2 });
    const history = await rulesHistory(store);
    expect(history.map(({ version, current }) => [version, current])).toEqual([
      [2, true],
      [1, false],
      [0, false],
    ]);
    expect(history[2]?.text).toBe(flat);
  });

  it('shows an order of channels that changed, because of patterns the first wins', async () => {
    const store = await openStore();
    await setRules(store, {
      expectedVersion: 0,
      document: { mode: 'on', channels: { 'a*': { window: 1 }, '*': { window: 2 } } },
      actor: 'ann',
    });
    const result = await setRules(store, {
      expectedVersion: 1,
      document: { mode: 'on', channels: { '*': { window: 2 }, 'a*': { window: 1 } } },
      actor: 'ann',
    });
    expect(result).toMatchObject({
      changed: true,
      diff: [{ path: 'channels (order)', before: ['a*', '*'], after: ['*', 'a*'] }],
    });
  });

  it('masks secrets in clear in what it tells, not in what it keeps', async () => {
    const store = await openStore();
    const receivers = (token: string) => ({
      ops: { type: 'dingtalk', url: `https://example.com/robot?token=${token}`, secret: token },
    });
    await setRules(store, {
      expectedVersion: 0,
      document: { mode: 'on', receivers: receivers('hush-1') },
      actor: 'ann',
    });
    const result = await setRules(store, {
      expectedVersion: 1,
      document: { mode: 'on', receivers: receivers('hush-2') },
      actor: 'ann',
    });
    expect(JSON.stringify(result)).not.toContain('hush');
    expect(result).toMatchObject({
      diff: [
        { path: 'receivers.ops.url', after: 'https://example.com/***' },
        { path: 'receivers.ops.secret', after: '***' },
      ],
    });
    const kept = (await getRules(store))?.document;
    expect(JSON.stringify(kept)).toContain('hush-2');
    expect(JSON.stringify(maskSecrets(kept))).not.toContain('hush');
  });
});

describe('the history of the rules', () => {
  it('is newest first, has a bound, and any version in it can be put into force again', async () => {
    const store = await openStore();
    for (let version = 0; version < HISTORY_MOST + 5; version += 1) {
      await setRules(store, { expectedVersion: version, document: document(version + 1), actor: 'ann' });
    }
    const history = await rulesHistory(store);
    expect(history).toHaveLength(HISTORY_MOST);
    expect(history.slice(0, 2)).toMatchObject([
      { version: 55, current: true },
      { version: 54, current: false },
    ]);
    expect(await store.client.llen(store.keys.configHistory)).toBe(HISTORY_MOST);

    expect(await rollbackRules(store, { toVersion: 5, expectedVersion: 55, actor: 'bob' })).toEqual({
      ok: false,
      reason: 'unknown-version',
    });
    expect(await rollbackRules(store, { toVersion: 40, expectedVersion: 55, actor: 'bob' })).toMatchObject({
      ok: true,
      version: 56,
      diff: [{ path: 'defaults.window', before: 55, after: 40 }],
    });
    expect(await getRules(store)).toMatchObject({ version: 56, actor: 'bob', document: document(40) });
    expect(await rollbackRules(store, { toVersion: 41, expectedVersion: 55, actor: 'bob' })).toMatchObject({
      reason: 'conflict',
      version: 56,
    });
  });

  it('has the version in force although whoever set it died before noting it', async () => {
    const store = await openStore();
    await setRules(store, { expectedVersion: 0, document: document(1), actor: 'ann' });
    await store.client.del(store.keys.configHistory);
    await setRules(store, { expectedVersion: 1, document: document(2), actor: 'ann' });
    expect((await rulesHistory(store)).map(({ version }) => version)).toEqual([2, 1]);
  });
});

describe('what lies under fuseline:config', () => {
  it.each([
    ['mode: on', 0, { mode: 'on' }],
    ['version: 7\nmode: on', 7, { version: 7, mode: 'on' }],
    ['{"version":3,"switchMode":"on"}', 3, { version: 3, switchMode: 'on' }],
    ['{"v":1,"version":9,"actor":"x","at":"y","rules":{"mode":"on"},"later":1}', 9, { mode: 'on' }],
  ])('is read, ours or written by hand: %s', (text, version, value) => {
    expect(readStored(text)).toMatchObject({ version, document: value, text });
  });

  it('is told to be unreadable when it is neither YAML nor JSON', () => {
    expect(readStored('a: [')).toMatchObject({ version: 0, unreadable: [{ path: expect.stringContaining('line') }] });
  });
});
