import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ChannelBatch } from '../../src/domain/batch.js';
import { ChannelModel } from '../../src/domain/channel-model.js';
import type { Policy } from '../../src/domain/policy.js';
import { Keys } from '../../src/redis/keys.js';
import { sharedRedisUrl, uniquePrefix } from '../support/redis.js';
import { ClockedChannel } from './clocked-channel.js';

const FRESH_MS = 50_000;
/** For more runs than usual. */
const TIMEOUT_MS = Number(process.env.FUSELINE_PROPERTY_TIMEOUT_MS ?? 120_000);
const START = Math.floor(Date.now() / 1000) * 1000 + 365 * 86_400_000;

/** Mostly a plain policy; sometimes all that can stand beside the rate, each now and then. */
const beside: fc.Arbitrary<Partial<Policy>> = fc.oneof(
  { weight: 2, arbitrary: fc.constant({}) },
  {
    weight: 3,
    arbitrary: fc.record(
      {
        slow: fc.constantFrom({ overMs: 5 }, { overMs: 5, rate: 0 }, { overMs: 5, rate: 3_000 }),
        minFailures: fc.integer({ min: 1, max: 5 }),
        maxFailures: fc.integer({ min: 0, max: 5 }),
        maxConsecutiveFailures: fc.integer({ min: 0, max: 5 }),
        minSources: fc.integer({ min: 2, max: 3 }),
        rateLimit: fc.constant({ minMs: 1_000, maxMs: 20_000 }),
        halfOpen: fc.record({
          steps: fc.constantFrom([0], [1_000], [0, 2_000, 5_000], [1_000, 5_000]),
          permits: fc.constantFrom(1, 2),
          close: fc.integer({ min: 1, max: 3 }),
          waitMs: fc.constantFrom(1_000, 30_000),
          reopens: fc.boolean(),
        }),
        isReleasedByHand: fc.constant(true),
        levels: fc.constantFrom(
          [{ name: 'cached', line: 9_000 }],
          [
            { name: 'fallback', line: 6_500 },
            { name: 'cached', line: 8_500 },
          ],
        ),
      },
      { requiredKeys: [] },
    ),
  },
);

const plain = fc.record({
  mode: fc.constantFrom('on' as const, 'on' as const, 'observe' as const),
  window: fc.oneof(
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('count' as const), size: fc.integer({ min: 1, max: 12 }) }) },
    fc.record({
      kind: fc.constant('time' as const),
      spanMs: fc.constantFrom(1_000, 5_000, 20_001),
      slots: fc.integer({ min: 1, max: 6 }),
      minCalls: fc.integer({ min: 1, max: 6 }),
    }),
    fc.record({
      kind: fc.constant('log' as const),
      spanMs: fc.constantFrom(1_000, 5_000, 20_001),
      minCalls: fc.integer({ min: 1, max: 6 }),
      maxEntries: fc.constantFrom(3, 12, 10_000),
    }),
    fc
      .record({
        up: fc.integer({ min: 1, max: 5 }),
        down: fc.integer({ min: 1, max: 4 }),
        limit: fc.integer({ min: 1, max: 14 }),
      })
      .map((test) => ({ kind: 'sequential' as const, healthy: 9_500, failing: 5_000, falseBlocks: 1e-6, ...test })),
  ),
  successRate: fc.constantFrom(9_999, 9_999, 5_000, 6_000, 7_000, 8_000, 9_999, 10_000),
  block: fc.record({
    forMs: fc.integer({ min: 1, max: 40_000 }),
    growth: fc.constantFrom(1, 2, 1.37, 100),
    maxMs: fc.constantFrom(60_000, 100_000),
    jitter: fc.constantFrom(undefined, undefined, 0.1, 0.5),
    ofPast: fc.constantFrom(
      undefined,
      { timesMean: 2.5, minMs: 1 },
      { timesMean: 1, minMs: 1 },
      { timesMean: 9.9, minMs: 1 },
    ),
  }),
  holdMs: fc.constantFrom(0, 20_000, 60_000),
  ignore: fc.constant([]),
}) satisfies fc.Arbitrary<Policy>;
const policy: fc.Arbitrary<Policy> = fc.tuple(plain, beside).map(([rules, more]) => ({ ...rules, ...more }));

/** What a worker would make of an outcome under the policy: `3` and `4` only where the policy looks at these. */
function judgedAs(code: string, { slow, rateLimit }: Policy): string {
  if (code === '3' && slow === undefined) return '1';
  if (code === '4' && rateLimit === undefined) return '0';
  return code;
}

type Entry = {
  arrivedAgo: number;
  outcomes: { code: string; ago: number; duration: number; source: string | undefined; retry: number }[];
};
const outcome = fc.record({
  code: fc.constantFrom('0', '0', '0', '1', '1', '1', '1', '2', '3', '4'),
  source: fc.constantFrom('a', 'a', 'b', undefined),
  retry: fc.integer({ min: 0, max: 30_000 }),
  ago: fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, fc.integer({ min: 0, max: 60_000 })),
  duration: fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, fc.integer({ min: 0, max: 30_000 })),
});
/** Often one outcome, and often together with others: such entries go to the script as one. */
const entry: fc.Arbitrary<Entry> = fc.record({
  arrivedAgo: fc.oneof(fc.constant(0), fc.integer({ min: -5, max: 8_000 })),
  outcomes: fc.oneof(
    fc.array(outcome, { minLength: 1, maxLength: 1 }),
    fc.array(outcome, { minLength: 1, maxLength: 5 }),
  ),
});

type Step =
  | { do: 'record'; partition: number; from: number; left: number; fresh: Entry[]; wait: number; rules: number }
  | { do: 'recover'; wait: number; rules: number }
  | { do: 'override'; action: 'block' | 'unblock'; forMs: number; wait: number; rules: number };
const wait = fc.oneof(
  { weight: 5, arbitrary: fc.integer({ min: 0, max: 3_000 }) },
  fc.integer({ min: 0, max: 70_000 }),
  fc.constant(86_400_000),
  fc.constant(90 * 86_400_000),
  fc.constant(20_001),
  fc.constant(60_001),
);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('record' as const),
      partition: fc.integer({ min: 0, max: 2 }),
      from: fc.integer({ min: 0, max: 6 }),
      left: fc.constantFrom(0, 0, 1, 2),
      fresh: fc.array(entry, { minLength: 1, maxLength: 4 }),
      wait,
      rules: fc.integer({ min: 0, max: 9 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('recover' as const), wait, rules: fc.integer({ min: 0, max: 9 }) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('override' as const),
      action: fc.constantFrom('block' as const, 'unblock' as const),
      forMs: fc.constantFrom(0, -1, 5_000),
      wait,
      rules: fc.integer({ min: 0, max: 9 }),
    }),
  },
);

function toBatch(
  rules: Policy,
  partition: number,
  entries: { position: number; arrival: number; entry: Entry }[],
): ChannelBatch {
  const outcomes = entries
    .flatMap(({ entry }) => entry.outcomes)
    .map((outcome) => ({ ...outcome, code: judgedAs(outcome.code, rules) }));
  return {
    partition: `test/log/${partition}/0`,
    results: outcomes.map(({ code }) => code).join(''),
    entries: entries.map(({ position, arrival, entry }) => [String(position), arrival, entry.outcomes.length]),
    times: outcomes.flatMap(({ ago, duration }) => [ago, duration]),
    evidence: outcomes
      .filter(({ code }) => code !== '1' && code !== '2')
      .map(({ code, source, retry }, i) =>
        JSON.stringify({ at: i, code: `E${i}`, source, retryAfterMs: code === '4' ? retry : undefined }),
      ),
  };
}

describe('the scripts and the pure model', () => {
  let client: Redis;
  beforeAll(() => {
    client = new Redis(sharedRedisUrl());
  });
  afterAll(() => client.quit());

  it(
    'agree on every reply, every key and every transition, call by call, through any history',
    async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(policy, { minLength: 2, maxLength: 4 }),
          fc.array(step, { minLength: 10, maxLength: 60 }),
          async (policies, steps) => {
            const script = new ClockedChannel(client, new Keys(uniquePrefix()), 'C', FRESH_MS);
            const model = new ChannelModel('C', FRESH_MS);
            const logs: { position: number; arrival: number; entry: Entry }[][] = [[], [], []];
            let now = START;
            let rules = policies[0]!;
            for (const move of steps) {
              now += move.wait;
              if (move.rules < 4) rules = policies[move.rules % policies.length]!;
              if (move.do === 'record') {
                const log = logs[move.partition]!;
                for (const one of move.fresh)
                  log.push({ position: log.length, arrival: now - one.arrivedAgo, entry: one });
                // Read again from up to six entries back, cut anywhere: what a restart or a rebalance does.
                const first = Math.max(0, log.length - move.fresh.length - move.from);
                const batch = toBatch(
                  rules,
                  move.partition,
                  log.slice(first, Math.max(first + 1, log.length - move.left)),
                );
                const got = await script.record(rules, batch, now);
                const want = model.record(rules, batch, now);
                expect(got).toEqual(want);
              } else if (move.do === 'recover') {
                expect(await script.recover(rules, now)).toBe(model.recover(rules, now));
              } else {
                await script.override(rules, now, move.action, move.forMs);
                model[move.action](
                  rules,
                  now,
                  { actor: 'ann', note: 'because' },
                  Math.max(move.forMs, move.action === 'block' ? -1 : 0),
                );
              }
              expect(await script.takeTransitions()).toEqual(model.takeTransitions());
              expect(await script.view(now)).toEqual(model.view(now));
              expect(await script.dueAfterSettling(now)).toBe(model.nextDue());
            }
          },
        ),
        { numRuns: Number(process.env.FUSELINE_PROPERTY_RUNS ?? 100) },
      );
    },
    TIMEOUT_MS,
  );
});
