import { describe, expect, it } from 'vitest';
import { clearLoad, readLoad, setLoad, stepLoad } from '../../src/channel/load.js';
import { AS_WRITTEN, STEP_EVERY_MS } from '../../src/domain/dynamic.js';
import { createIntake } from '../../src/intake/intake.js';
import { lastMinute, workersLoad } from '../../src/intake/last-minute.js';
import { createLoadedPolicies } from '../../src/intake/loaded-policies.js';
import { Stats, writeStats } from '../../src/intake/stats.js';
import { silent } from '../../src/observe/log.js';
import { createMetrics } from '../../src/observe/metrics.js';
import { createLoadWatch } from '../../src/recovery/load-watch.js';
import { closeRedis, openRedis, type RedisClient, whenReady } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import { fixedRules } from '../../src/rules/live-document.js';
import type { LogReader } from '../../src/transport/port.js';
import { stand } from '../announce/support.js';
import { FRESH_MS } from '../channel/support.js';
import { sharedRedisUrl, startRedis, uniquePrefix } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';
import { until } from '../support/wait.js';

const DYNAMIC = {
  mode: 'on',
  defaults: { window: 10, successRate: 70, dynamic: true },
  channels: { ALIPAY: {}, BANK: {}, WRITTEN: { dynamic: false }, OFF: { mode: 'off' } },
};

type Place = { client: RedisClient; keys: Keys };

async function place(url = sharedRedisUrl()): Promise<Place> {
  const client = openRedis(url, 'commands');
  releaseAtEnd(() => closeRedis(client));
  await whenReady(client);
  return { client, keys: new Keys(uniquePrefix()) };
}

/** A watcher, and the lines that it logged. */
function watcher({ client, keys }: Place, document: object = DYNAMIC, workers: readonly string[] = []) {
  const told: Record<string, unknown>[] = [];
  const log = { ...silent, info: (facts: object) => void told.push(facts as Record<string, unknown>) };
  const rules = fixedRules(document);
  return { ...createLoadWatch({ client, keys, rules, workers: async () => workers, log }), told };
}

/** As if so much time had passed since the last step. */
const pass = ({ client, keys }: Place, ms = STEP_EVERY_MS) => client.hincrby(keys.load, 'at', -ms);
const factors = async ({ client, keys }: Place) => (await readLoad(client, keys)).factors;

describe('the watchers of the load', () => {
  it('take one step a minute, however many of them look, and log once what channels are judged by then', async () => {
    const at = await place();
    await setLoad(at.client, at.keys, 0.9, 600_000, 'ann');
    const watchers = await Promise.all([1, 2, 3].map(async () => watcher({ ...(await place()), keys: at.keys })));
    const looks = await Promise.all(watchers.map((one) => one.look()));
    expect(looks.filter((look) => look === 'taken')).toHaveLength(1);
    expect(await factors(at)).toEqual({ window: 1.5, rate: 1.2 });
    expect((await Promise.all(watchers.map((one) => one.look()))).every((look) => look === 'early')).toBe(true);
    await pass(at, STEP_EVERY_MS - 5_000);
    expect(await watchers[0]!.look()).toBe('early');
    await pass(at, 5_000);
    await Promise.all(watchers.map((one) => one.look()));
    expect(await factors(at)).toEqual({ window: 2.25, rate: 1.44 });
    const policies = (window: number, successRate: number) => [
      { window, successRate, channels: ['ALIPAY', 'BANK'], more: 0 },
    ];
    const told = watchers.flatMap((one) => one.told);
    // Any of them may have been the one that took a step.
    expect(told.sort((a, b) => Number(a.windowFactor) - Number(b.windowFactor))).toEqual([
      { load: 0.9, source: 'hand', actor: 'ann', windowFactor: 1.5, rateFactor: 1.2, policies: policies(15, 64) },
      { load: 0.9, source: 'hand', actor: 'ann', windowFactor: 2.25, rateFactor: 1.44, policies: policies(22, 56.8) },
    ]);
  });

  it('take no step from what was read before another step, or before the load was set', async () => {
    const at = await place();
    const stored = await readLoad(at.client, at.keys);
    const to = { factors: { window: 1.5, rate: 1.2 }, load: 0.8, source: 'workers' } as const;
    await setLoad(at.client, at.keys, 0.1, -1, 'ann');
    expect(await stepLoad(at.client, at.keys, stored, to)).toBe(false);
    const fresh = await readLoad(at.client, at.keys);
    expect(await stepLoad(at.client, at.keys, fresh, to)).toBe(true);
    expect(await stepLoad(at.client, at.keys, fresh, to)).toBe(false);
    await pass(at);
    expect(await stepLoad(at.client, at.keys, fresh, to)).toBe(false);
  });

  it('go back step by step when the load is low, never under what is written, and say so once', async () => {
    const at = await place();
    const one = watcher(at);
    for (const load of [0.8, 0.8, 0.5]) {
      await setLoad(at.client, at.keys, load, -1, 'ann');
      await one.look();
      await pass(at);
    }
    expect(await factors(at)).toEqual({ window: 2.25, rate: 1.44 });
    await setLoad(at.client, at.keys, 0.2, -1, 'ann');
    const back: unknown[] = [];
    for (let i = 0; i < 7; i += 1) {
      await one.look();
      back.push(await factors(at));
      await pass(at);
    }
    expect(back[0]).toEqual({ window: 1.875, rate: 1.3091 });
    expect(back.slice(-2)).toEqual([AS_WRITTEN, AS_WRITTEN]);
    expect(one.told.at(-1)).toMatchObject({
      windowFactor: 1,
      rateFactor: 1,
      policies: [{ window: 10, successRate: 70 }],
    });
    expect(one.told.length).toBeLessThanOrEqual(2 + 5);
  });

  it('go by the mean of what the workers measured, and by nothing while none of them says', async () => {
    const at = await place();
    const one = watcher(at, DYNAMIC, ['w1', 'w2', 'dead']);
    expect(await one.look()).toBe('unknown');
    expect(await at.client.exists(at.keys.load)).toBe(0);
    await at.client.hset(at.keys.stats('w1'), '{load}', '0.9', 'SMS', '{"successes":5,"failures":1}');
    await at.client.hset(at.keys.stats('w2'), '{load}', '0.6');
    expect(await workersLoad(at.client, at.keys, ['w1', 'w2', 'dead'])).toBeCloseTo(0.75);
    expect(await one.look()).toBe('taken');
    expect(await readLoad(at.client, at.keys)).toMatchObject({ last: { load: 0.75, source: 'workers' } });
    // Whom no rule names is told of all the same, for it has traffic; the load itself is no channel.
    expect(one.told).toMatchObject([{ policies: [{ channels: ['ALIPAY', 'BANK', 'SMS'] }] }]);
    expect([...(await lastMinute(at.client, at.keys, ['w1', 'w2'])).keys()]).toEqual(['SMS']);
  });

  it('go by the workers again when what was set has ended, or is cleared; factors that nobody looks after expire', async () => {
    const at = await place();
    const one = watcher(at, DYNAMIC, ['w']);
    await at.client.hset(at.keys.stats('w'), '{load}', '0.1');
    expect(await setLoad(at.client, at.keys, 0.9, 30, 'ann')).not.toHaveProperty('before');
    await until(async () => (await one.look()) === 'taken' || (await pass(at)), {
      what: 'a step',
      accept: (taken) => taken === true,
    });
    await until(
      async () => {
        await pass(at);
        await one.look();
        return await at.client.hexists(at.keys.load, 'hand');
      },
      { what: 'the end of what was set', accept: (left) => left === 0 },
    );
    expect((await readLoad(at.client, at.keys)).last).toEqual({ load: 0.1, source: 'workers' });
    const lives = await at.client.pttl(at.keys.load);
    expect(lives).toBeGreaterThan(590_000);
    expect(lives).toBeLessThanOrEqual(600_000);

    const { until: end, nowMs } = await setLoad(at.client, at.keys, 0.9, 3_600_000, 'ann');
    expect(end - nowMs).toBe(3_600_000);
    expect(await at.client.pttl(at.keys.load)).toBeGreaterThan(4_100_000);
    expect(await setLoad(at.client, at.keys, 1, -1, 'bob')).toMatchObject({ until: -1, before: 0.9 });
    expect(await at.client.pttl(at.keys.load)).toBe(-1);
    await pass(at);
    await one.look();
    expect((await readLoad(at.client, at.keys)).last).toEqual({ load: 1, source: 'hand' });
    expect(await at.client.pttl(at.keys.load)).toBe(-1);
    expect(await clearLoad(at.client, at.keys)).toMatchObject({ until: 0, before: 1 });
    expect(await at.client.pttl(at.keys.load)).toBeLessThanOrEqual(600_000);
    await pass(at);
    await one.look();
    expect((await readLoad(at.client, at.keys)).last).toEqual({ load: 0.1, source: 'workers' });
    expect(await clearLoad(at.client, (await place()).keys)).not.toHaveProperty('before');
  });

  it('survive what others may have written into the key', async () => {
    const at = await place();
    const one = watcher(at);
    await at.client.hset(at.keys.load, {
      windowFactor: '1e9',
      rateFactor: 'x',
      at: 'soon',
      load: '7',
      hand: '0.9',
      handUntil: '-1',
    });
    expect((await readLoad(at.client, at.keys)).factors).toEqual(AS_WRITTEN);
    expect(await one.look()).toBe('taken');
    expect(await factors(at)).toEqual({ window: 1.5, rate: 1.2 });
    await at.client.hset(at.keys.load, { windowFactor: '1e9', rateFactor: '-1' });
    expect(await factors(at)).toEqual({ window: 1.5 ** 4, rate: 1 });
    const [seconds] = await at.client.time();
    await at.client.hset(at.keys.load, 'at', (Number(seconds) + 86_400) * 1_000);
    expect(await one.look()).toBe('taken');
  });
});

const reader: LogReader = {
  run: async () => {},
  deadLetter: async () => {},
  progress: () => ({ owned: [], lag: 0, lastProgressAt: 0, counters: {} }),
};

describe('outcome workers', () => {
  it('two of them judge by the same scaled policy after a step, and what is not dynamic as it is written', async () => {
    const one = await stand();
    let position = 0;
    const workers = [1, 2].map(() => {
      const rules = fixedRules(DYNAMIC);
      const metrics = createMetrics();
      const policies = createLoadedPolicies({ ...one, rules, log: silent, set: metrics.set });
      const { client, keys, announcer } = one;
      const intake = createIntake({
        ...{ client, keys, announcer, reader, rules: policies, stats: new Stats(), freshForMs: FRESH_MS },
        ...{ logClockLeadMs: 0, maxChannels: 100, log: silent, count: metrics.count },
      });
      const fail = (channel: string, times: number) =>
        intake.handle({
          partition: 'test/log/0/0',
          entries: Array.from({ length: times }, () => ({
            ...{ position: String(++position), arrivalMs: 0, outcomes: [{ channel, success: false }], raw: () => '' },
          })),
        });
      return { policies, fail, metrics };
    });
    const [a, b] = workers as [(typeof workers)[0], (typeof workers)[0]];
    const blocked = (channel: string) => one.client.exists(one.keys.blocked(channel));
    // As written, the fourth of ten blocks.
    await a.fail('BEFORE', 2);
    await b.fail('BEFORE', 2);
    expect(await blocked('BEFORE')).toBe(1);

    await setLoad(one.client, one.keys, 0.95, -1, 'ann');
    await watcher(one).look();
    await Promise.all(workers.map(({ policies }) => policies.refresh()));
    expect(a.policies.policyFor('ALIPAY')).toEqual(b.policies.policyFor('ALIPAY'));
    expect(a.policies.policyFor('ALIPAY')).toMatchObject({ window: { size: 15 }, successRate: 6_400 });
    expect(a.policies.policyFor('ALIPAY')).toBe(a.policies.policyFor('ALIPAY'));
    // Of fifteen, five failures leave 66.7 %, the sixth 60 %.
    await a.fail('ALIPAY', 3);
    await b.fail('ALIPAY', 2);
    expect(await blocked('ALIPAY')).toBe(0);
    await a.fail('ALIPAY', 1);
    expect(await blocked('ALIPAY')).toBe(1);
    await b.fail('WRITTEN', 4);
    expect(await blocked('WRITTEN')).toBe(1);
    const value = async (name: string) => (await a.metrics.registry.getSingleMetric(name)!.get()).values[0]!.value;
    expect(await Promise.all(['fuseline_load', 'fuseline_window_factor', 'fuseline_rate_factor'].map(value))).toEqual([
      0.95, 1.5, 1.2,
    ]);
  });

  it('keep the last factors while Redis cannot say, and go back to what is written when nothing is dynamic any more', async () => {
    const at = await place();
    const rules = fixedRules(DYNAMIC);
    const warnings: string[] = [];
    const log = { ...silent, warn: (_facts: object, text?: string) => void warnings.push(text ?? '') };
    const policies = createLoadedPolicies({ ...at, rules, log, set: () => {} });
    await setLoad(at.client, at.keys, 1, -1, 'ann');
    await watcher(at).look();
    await policies.refresh();
    await at.client.del(at.keys.load);
    await at.client.set(at.keys.load, 'a foreign type');
    await policies.refresh();
    await policies.refresh();
    expect(policies.policyFor('ALIPAY').window).toEqual({ kind: 'count', size: 15 });
    expect(warnings).toEqual(['the factors of the load cannot be read: the last ones stay']);
    rules.replace({ mode: 'on', defaults: { window: 10 } });
    expect(policies.policyFor('ALIPAY').window).toEqual({ kind: 'count', size: 10 });
  });

  it('tell the utilisation of their event loops beside their counts, only where a policy is dynamic', async () => {
    const at = await place();
    const stop = new AbortController();
    const busy = new Stats();
    busy.add('SMS', '10');
    const writing = [
      writeStats(at.client, at.keys, 'quiet', busy, stop.signal),
      writeStats(at.client, at.keys, 'w', new Stats(), stop.signal, () => true),
    ];
    const load = await until(() => workersLoad(at.client, at.keys, ['w']), {
      what: 'the load to be told',
      accept: (one) => one !== undefined,
    });
    await until(() => at.client.exists(at.keys.stats('quiet')), { what: 'the other counts' });
    expect(await at.client.hkeys(at.keys.stats('quiet'))).toEqual(['SMS']);
    stop.abort();
    await Promise.all(writing);
    expect(load).toBeGreaterThanOrEqual(0);
    expect(load).toBeLessThanOrEqual(1);
  });
});

it('costs Redis not one command where no policy is dynamic', async () => {
  const at = await place((await startRedis()).url);
  const rules = fixedRules({ mode: 'on', defaults: { window: 10 }, channels: { A: { dynamic: false } } });
  const policies = createLoadedPolicies({ ...at, rules, log: silent, set: () => {} });
  await at.client.config('RESETSTAT');
  for (let i = 0; i < 3; i += 1) {
    expect(await watcher(at, { mode: 'on', channels: { A: {} } }).look()).toBe('off');
    await policies.refresh();
    policies.policyFor('A');
  }
  const info = await at.client.info('commandstats');
  expect(
    [...info.matchAll(/^cmdstat_([^:]+):/gm)].map(([, name]) => name).filter((name) => name !== 'config|resetstat'),
  ).toEqual([]);
});
