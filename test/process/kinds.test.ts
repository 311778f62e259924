import { expect, it } from 'vitest';
import { createPublisher } from '../../src/publisher/index.js';
import { createReader } from '../../src/reader/reader.js';
import { closeRedis, openRedis, whenReady } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import { startHttpReceiver } from '../support/http-receiver.js';
import { sharedRedisUrl, uniquePrefix } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';
import { until } from '../support/wait.js';
import { metric, rulesFile, startRoles, untilReady } from './workers.js';

type Call = { success: boolean; code?: string; durationMs?: number; retryAfterMs?: number; source?: string };
const good: Call = { success: true };
const bad: Call = { success: false, code: 'E1' };
const slow: Call = { success: true, durationMs: 2_000 };
const times = (n: number, call: Call): Call[] => Array(n).fill(call);

/** What each channel is judged by, what is published of it, and what people are told: `undefined`, nothing. */
const CHANNELS: Record<string, { rule: object; calls: Call[]; told: string | undefined }> = {
  counted: { rule: {}, calls: times(2, bad), told: 'blocked success-rate' },
  timed: {
    rule: { window: { kind: 'time', span: '30s', minCalls: 4 } },
    calls: [good, ...times(3, bad)],
    told: 'blocked success-rate',
  },
  logged: {
    rule: { window: { kind: 'log', span: '30s', minCalls: 4 } },
    calls: [good, ...times(3, bad)],
    told: 'blocked success-rate',
  },
  tested: {
    rule: { window: { kind: 'sequential', healthy: 95, failing: 50 } },
    calls: times(12, bad),
    told: 'blocked sequential-test',
  },
  'slow-as-failed': {
    rule: { slowCall: '1s', slowAs: 'failure' },
    calls: times(2, slow),
    told: 'blocked slow-calls',
  },
  'slow-by-rate': {
    rule: { slowCall: '1s', slowRate: 30, successRate: 0 },
    calls: times(2, slow),
    told: 'blocked slow-calls',
  },
  absolute: {
    rule: { window: { kind: 'time', span: '30s' }, successRate: 0, maxFailures: 2 },
    calls: [...times(50, good), ...times(3, bad)],
    told: 'blocked too-many-failures',
  },
  dead: {
    rule: { successRate: 0, maxConsecutiveFailures: 3 },
    calls: times(4, bad),
    told: 'blocked consecutive-failures',
  },
  closed: {
    rule: { codes: { failure: ['ACCOUNT_*'] } },
    calls: times(2, { success: true, code: 'ACCOUNT_CLOSED' }),
    told: 'blocked success-rate',
  },
  declined: {
    rule: { codes: { ignored: ['CARD_*'] } },
    calls: times(20, { success: false, code: 'CARD_DECLINED' }),
    told: undefined,
  },
  alone: {
    rule: { minSources: 2 },
    calls: times(9, { ...bad, source: 'checkout@sick' }),
    told: 'suspected success-rate',
  },
  limited: {
    rule: { rateLimited: { min: '1s', max: '1m' } },
    calls: [{ success: false, code: '429', retryAfterMs: 1_500 }],
    told: undefined,
  },
};

it('2.02 judges each channel by its own kind of rule, in another process, and tells people why; a third party’s wish to wait is told to nobody', async () => {
  const receiver = await startHttpReceiver();
  const [url, prefix] = [sharedRedisUrl(), uniquePrefix()];
  const rules = Object.fromEntries(Object.entries(CHANNELS).map(([channel, { rule }]) => [channel, rule]));
  const worker = startRoles(['outcomes', 'recovery', 'alerts'], {
    ...{ FUSELINE_REDIS_URL: url, FUSELINE_PREFIX: prefix, FUSELINE_ALLOW_PRIVATE_RECEIVERS: 'true' },
    FUSELINE_RULES: await rulesFile({
      ...{ version: 1, mode: 'on', defaults: { window: 5, successRate: 70, block: '30m' }, channels: rules },
      receivers: { ops: { type: 'webhook', url: `${receiver.url}/hook` } },
      routes: [{ to: ['ops'] }],
    }),
  });
  const [client, keys] = [openRedis(url, 'commands'), new Keys(prefix)];
  const [publisher, reader] = [createPublisher({ url, prefix }), createReader({ url, prefix })];
  const limited: string[] = [];
  reader.on('transition', ({ channel, kind }) => void (channel === 'limited' && limited.push(kind)));
  releaseAtEnd(async () => {
    await Promise.all([publisher.close(), reader.close()]);
    await closeRedis(client);
  });
  await Promise.all([untilReady(worker), whenReady(client), reader.ready]);

  for (const [channel, { calls }] of Object.entries(CHANNELS))
    for (const call of calls) publisher.publish({ channel, ...call });
  expect(await publisher.flush()).toBe(true);

  const wanted = Object.entries(CHANNELS).filter(([, { told }]) => told !== undefined);
  type Body = { channel: string; type: string; reason: string; evidence: { source?: string }[] };
  const bodies = () => receiver.requests.map(({ body }) => JSON.parse(body) as Body);
  await until(bodies, {
    what: 'every message',
    accept: (all) => all.length >= wanted.length,
    timeoutMs: 20_000,
  });
  await until(() => limited, { what: 'the pause to end', accept: (all) => all.includes('resumed'), timeoutMs: 20_000 });
  expect(limited).toEqual(['paused', 'resumed']);

  const told = Object.fromEntries(bodies().map(({ channel, type, reason }) => [channel, `${type} ${reason}`]));
  expect(told).toEqual(Object.fromEntries(wanted.map(([channel, each]) => [channel, `channel.${each.told}`])));
  expect(bodies().length).toBe(wanted.length);
  expect(
    new Set(
      bodies()
        .find(({ channel }) => channel === 'alone')
        ?.evidence.map(({ source }) => source),
    ),
  ).toEqual(new Set(['checkout@sick']));
  const hidden = await Promise.all(
    Object.keys(CHANNELS).map(async (channel) => ((await client.exists(keys.blocked(channel))) === 1 ? [channel] : [])),
  );
  expect(hidden.flat()).toEqual(wanted.map(([channel]) => channel).filter((channel) => channel !== 'alone'));
  expect(await metric(worker, 'fuseline_outcomes_total{disposition="ignored"}')).toBe(20);
}, 60_000);
