import { describe, expect, it } from 'vitest';
import { closeRedis, openRedis } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import { fixedRules, RulesError } from '../../src/rules/live-document.js';
import type { LiveRules } from '../../src/rules/port.js';
import { functionSource } from '../../src/rules/sources.js';
import { getRules, setRules } from '../../src/rules/store.js';
import { startRedis, uniquePrefix } from '../support/redis.js';
import { until } from '../support/wait.js';
import { follow, openStore, recordingLogger } from './support.js';

const windowOf = (rules: Pick<LiveRules, 'policyFor'>) => {
  const { window } = rules.policyFor('A');
  return window.kind === 'count' ? window.size : Number.NaN;
};

describe('live rules', () => {
  it('are the new ones within a second of a change, in every process, without a restart', async () => {
    const store = await openStore();
    await setRules(store, { expectedVersion: 0, document: { mode: 'on', defaults: { window: 5 } }, actor: 'ann' });
    const others = await Promise.all([openStore(undefined, store.keys), openStore(undefined, store.keys)]);
    const followers = await Promise.all([store, ...others].map((each) => follow(each)));
    expect(followers.map(windowOf)).toEqual([5, 5, 5]);

    let changes = 0;
    followers[2]?.onChange(() => {
      changes += 1;
    });
    const startedAt = performance.now();
    await setRules(store, { expectedVersion: 1, document: { mode: 'on', defaults: { window: 6 } }, actor: 'ann' });
    await until(() => followers.every((rules) => windowOf(rules) === 6), {
      what: 'the new window in all',
      timeoutMs: 1_000,
    });
    expect(performance.now() - startedAt).toBeLessThan(1_000);
    expect(followers.map((rules) => rules.version())).toEqual([2, 2, 2]);
    expect(changes).toBe(1);
  });

  it('9.05 are the defaults in mode observe, with one warning, while there is no document', async () => {
    for (const nothing of [null, '', 'null', '[]']) {
      const store = await openStore();
      if (nothing !== null) await store.client.set(store.keys.config, nothing);
      const logger = recordingLogger();
      const rules = await follow({ ...store, logger });
      await rules.refresh();
      expect(rules.loaded()).toBe(true);
      expect([rules.version(), rules.policyFor('A').mode, windowOf(rules)]).toEqual([0, 'observe', 10]);
      expect(logger.of('warn')).toEqual([expect.stringContaining('every channel is observed')]);
    }
  });

  it('9.05 stay when the key is emptied or deleted under them, unless the empty document was confirmed', async () => {
    const store = await openStore();
    await setRules(store, { expectedVersion: 0, document: { mode: 'on' }, actor: 'ann' });
    const logger = recordingLogger();
    const rules = await follow({ ...store, logger });
    for (const nothing of ['[]', '', 'null']) {
      await store.client.set(store.keys.config, nothing);
      await rules.refresh();
    }
    await store.client.del(store.keys.config);
    await rules.refresh();
    expect([rules.version(), rules.policyFor('A').mode]).toEqual([1, 'on']);
    expect(logger.of('warn').at(-1)).toContain('must be confirmed');

    await setRules(store, { expectedVersion: 0, document: [], actor: 'ann', confirmEmpty: true });
    await rules.refresh();
    expect([rules.version(), rules.policyFor('A').mode]).toEqual([2, 'observe']);
  });

  it('9.04 refuse a bad document as a whole, tell each distinct one once, and keep the last good one', async () => {
    const store = await openStore();
    await store.client.set(store.keys.config, 'version: 3\nmode: on\ndefaults: { window: 5 }');
    const logger = recordingLogger();
    const rules = await follow({ ...store, logger, pollMs: 20 });
    let changes = 0;
    rules.onChange(() => {
      changes += 1;
    });
    const bad = 'mode: on\ndefaults: { window: 6 }\nchannels: { A: { window: 1001 } }';
    for (const text of [bad, 'a: [', bad]) {
      await store.client.set(store.keys.config, text);
      await rules.refresh();
      await rules.refresh();
    }
    expect([rules.version(), windowOf(rules), changes]).toEqual([3, 5, 0]);
    expect(logger.of('error')).toHaveLength(2);
    expect(logger.lines.find(({ level }) => level === 'error')?.facts).toEqual({
      problems: [{ path: 'channels.A.window', message: 'window must be a whole number from 1 to 1000, got 1001' }],
    });
    await store.client.set(store.keys.config, 'version: 4\nmode: on\ndefaults: { window: 6 }');
    await until(() => windowOf(rules) === 6, { what: 'the next good document' });
  });

  it('stay as they were while Redis is away, say so once, and heal', async () => {
    const server = await startRedis();
    const store = await openStore(server.url);
    await setRules(store, { expectedVersion: 0, document: { mode: 'on', defaults: { window: 5 } }, actor: 'ann' });
    const logger = recordingLogger();
    const rules = await follow({ ...store, logger, pollMs: 30, deadlineMs: 100 });
    process.kill(server.pid, 'SIGSTOP');
    await until(() => logger.of('warn').length > 0, { what: 'the warning' });
    await rules.refresh();
    expect([rules.version(), windowOf(rules), logger.of('warn').length]).toEqual([1, 5, 1]);
    process.kill(server.pid, 'SIGCONT');
    await until(() => logger.of('info').some((line) => line.includes('again')), { what: 'the rules read again' });
  });

  it('start with the defaults when Redis is away, say that nothing was loaded, and take the rules when it comes', async () => {
    const first = await startRedis();
    await first.stop();
    const client = openRedis(first.url, 'commands');
    const keys = new Keys(uniquePrefix());
    const logger = recordingLogger();
    const rules = await follow({ client, keys, logger, pollMs: 30, startWithinMs: 50 });
    expect([rules.loaded(), rules.policyFor('A').mode, logger.of('warn').length]).toEqual([false, 'observe', 1]);
    await expect(rules.whenLoaded(AbortSignal.timeout(20))).rejects.toThrow();

    const second = await startRedis({ port: Number(new URL(first.url).port) });
    const store = await openStore(second.url, keys);
    await setRules(store, { expectedVersion: 0, document: { mode: 'on' }, actor: 'ann' });
    await rules.whenLoaded(AbortSignal.timeout(5_000));
    await until(() => rules.policyFor('A').mode === 'on', { what: 'the rules' });
    await closeRedis(client);
  });

  it('go on although a listener throws', async () => {
    const store = await openStore();
    const logger = recordingLogger();
    const rules = await follow({ ...store, logger });
    let heard = 0;
    rules.onChange(() => {
      throw new Error('mine');
    });
    const stop = rules.onChange(() => {
      heard += 1;
    });
    await store.client.set(store.keys.config, 'mode: on');
    await rules.refresh();
    stop();
    await store.client.set(store.keys.config, 'mode: off');
    await rules.refresh();
    expect([heard, rules.policyFor('A').mode, logger.of('error').length]).toEqual([1, 'off', 2]);
  });
});

describe('a source of rules', () => {
  it('is put into fuseline:config by the process that has it, so that no other needs it', async () => {
    const store = await openStore();
    const reader = await follow(store);
    let document: unknown = { mode: 'on', defaults: { window: 5 } };
    const owner = await follow({ ...store, source: functionSource('fixed', () => document) });
    expect(windowOf(owner)).toBe(5);
    await until(() => windowOf(reader) === 5, { what: 'the rules in the reader', timeoutMs: 3_000 });
    expect(await getRules(store)).toMatchObject({ version: 1, actor: 'function fixed', document });

    document = 'mode: on\ndefaults: { window: 6 }';
    await until(() => windowOf(owner) === 6 && windowOf(reader) === 6, {
      what: 'the change in both',
      timeoutMs: 3_000,
    });
  });

  it('changes nothing when it says what is in force, and leaves alone what a person sets later', async () => {
    const store = await openStore();
    const load = () => ({ mode: 'on', defaults: { window: 5 } });
    let looks = 0;
    const source = functionSource('fixed', () => {
      looks += 1;
      return load();
    });
    await setRules(store, { expectedVersion: 0, document: load(), actor: 'ann' });
    const rules = await follow({ ...store, source });
    expect(await getRules(store)).toMatchObject({ version: 1, actor: 'ann' });
    await setRules(store, { expectedVersion: 1, document: { mode: 'off' }, actor: 'ann' });
    const before = looks;
    await until(() => looks >= before + 3, { what: 'three more looks at the source' });
    await rules.refresh();
    expect(rules.policyFor('A').mode).toBe('off');
  });

  it('puts its document there again when the key was lost', async () => {
    const store = await openStore();
    await follow({ ...store, source: functionSource('fixed', () => ({ mode: 'on' })), pollMs: 50 });
    await store.client.del(store.keys.config);
    await until(async () => (await getRules(store))?.actor === 'function fixed', { what: 'the document again' });
  });

  it.each([
    ['bad', { mode: 'maybe' }, 'error'],
    ['not YAML', 'a: [', 'error'],
    ['empty', [], 'warn'],
    ['missing', undefined, 'warn'],
  ] as const)('that is %s changes nothing and is told once', async (_name, next, level) => {
    const store = await openStore();
    const logger = recordingLogger();
    let document: unknown = { mode: 'on' };
    let looks = 0;
    const source = functionSource('mine', () => {
      looks += 1;
      return document;
    });
    const rules = await follow({ ...store, source, logger });
    document = next;
    const before = looks;
    await until(() => looks >= before + 4, { what: 'four looks at the source' });
    expect([rules.version(), rules.policyFor('A').mode]).toEqual([1, 'on']);
    expect(logger.of(level).filter((line) => line.includes('function mine'))).toHaveLength(1);
  });

  it('that fails is told once per reason, and does not stop the rules from being followed', async () => {
    const store = await openStore();
    const logger = recordingLogger();
    let looks = 0;
    const source = functionSource('mine', () => {
      looks += 1;
      throw new Error('no such table');
    });
    const rules = await follow({ ...store, source, logger });
    await store.client.set(store.keys.config, 'mode: on');
    await until(() => rules.policyFor('A').mode === 'on' && looks >= 3, { what: 'the rules, and three failures' });
    expect(logger.of('warn').filter((line) => line.includes('no such table'))).toHaveLength(1);
  });

  it('of two processes with different documents: the last to start wins, and both live by the same', async () => {
    const store = await openStore();
    const a = await follow({ ...store, source: functionSource('a', () => ({ mode: 'on', defaults: { window: 5 } })) });
    const b = await follow({ ...store, source: functionSource('b', () => ({ mode: 'on', defaults: { window: 6 } })) });
    await a.refresh();
    expect([windowOf(a), windowOf(b), a.version(), b.version()]).toEqual([6, 6, 2, 2]);
  });
});

describe('fixed rules', () => {
  it('answer like live ones, and change at once', () => {
    const rules = fixedRules('mode: on\ndefaults: { window: 5 }');
    let heard = 0;
    rules.onChange(() => {
      heard += 1;
    });
    rules.replace({ mode: 'on', defaults: { window: 6 } });
    expect(() => rules.replace({ mode: 'maybe' })).toThrow(RulesError);
    expect([windowOf(rules), heard]).toEqual([6, 1]);
  });
});
