import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { describePolicy } from '../../src/domain/describe.js';
import {
  AS_WRITTEN,
  type Factors,
  isStepDue,
  MOST_FACTORS,
  nextFactors,
  readFactors,
  STEP_EVERY_MS,
  scaledPolicy,
} from '../../src/domain/dynamic.js';
import type { Policy } from '../../src/domain/policy.js';
import { policyOfRule } from '../../src/domain/policy-of-rule.js';
import { PolicyRule } from '../../src/domain/policy-schema.js';
import { parseRulesValue } from '../../src/domain/rules.js';
import { CountWindow } from '../../src/domain/window/count-window.js';
import { checkout } from '../support/files.js';

const loads = fc.double({ min: 0, max: 1, noNaN: true });
/** Every pair of factors that some story of loads leads to. */
const reached = fc.array(loads, { maxLength: 30 }).map((story) => story.reduce(nextFactors, AS_WRITTEN));

const hundredths = fc.integer({ min: 0, max: 10_000 }).map((n) => n / 100);
const span = fc.integer({ min: 1_000, max: 3_600_000 }).map((ms) => `${ms}ms`);
const windows = fc.oneof(
  fc.integer({ min: 1, max: 1_000 }),
  fc.record({
    kind: fc.constant('time' as const),
    span,
    slots: fc.integer({ min: 1, max: 120 }),
    minCalls: fc.integer({ min: 1, max: 1_000_000 }),
  }),
  fc
    .record({
      kind: fc.constant('log' as const),
      span,
      minCalls: fc.integer({ min: 1, max: 10_000 }),
      maxEntries: fc.integer({ min: 1, max: 10_000 }),
    })
    .map((log) => ({ ...log, minCalls: Math.min(log.minCalls, log.maxEntries) })),
);
const rules = fc.record(
  {
    window: windows,
    successRate: hundredths,
    maxFailures: fc.integer({ min: 0, max: 100_000 }),
    dynamic: fc.constant(true),
  },
  { requiredKeys: ['window', 'successRate', 'dynamic'] },
);
const policyOf = (rule: PolicyRule) => policyOfRule(rule, 'on');
const count = (size: number, rate: number, more: Partial<Policy> = {}): Policy => ({
  ...policyOf({ window: size, successRate: rate, dynamic: true }),
  ...more,
});

/** A window as numbers of which each may only grow. */
const sizes = ({ window }: Policy) =>
  Object.entries(window).flatMap(([, value]) => (typeof value === 'number' ? [value] : []));

describe('a step of the factors', () => {
  it('leads up by 1.5 and 1.2 above 0.7, back by 1.2 and 1.1 below 0.3, and nowhere between them', () => {
    expect(nextFactors(AS_WRITTEN, 0.71)).toEqual({ window: 1.5, rate: 1.2 });
    expect(nextFactors({ window: 2.25, rate: 1.44 }, 0.29)).toEqual({ window: 1.875, rate: 1.3091 });
    for (const load of [0.3, 0.5, 0.7])
      expect(nextFactors({ window: 1.5, rate: 1.2 }, load)).toEqual({ window: 1.5, rate: 1.2 });
  });

  it('never leads below what is written, nor beyond four steps up, whatever the story of loads', () => {
    fc.assert(
      fc.property(reached, ({ window, rate }) => {
        expect(window).toBeGreaterThanOrEqual(1);
        expect(rate).toBeGreaterThanOrEqual(1);
        expect(window).toBeLessThanOrEqual(1.5 ** 4);
        expect(rate).toBeLessThanOrEqual(1.2 ** 4);
      }),
    );
    const up = [0.9, 0.9, 0.9, 0.9].reduce(nextFactors, AS_WRITTEN);
    expect(up).toEqual({ window: 5.0625, rate: 2.0736 });
    expect(up).toEqual(MOST_FACTORS);
    expect(nextFactors(up, 1)).toEqual(up);
  });

  it('leads back to exactly what is written within nine quiet minutes', () => {
    fc.assert(
      fc.property(reached, (from) => {
        expect(new Array<number>(9).fill(0.1).reduce(nextFactors, from)).toEqual(AS_WRITTEN);
      }),
    );
  });

  it('takes what is no factor for 1, and what is beyond the bounds for the bound', () => {
    expect(readFactors({ window: Number.NaN, rate: Number.POSITIVE_INFINITY })).toEqual(AS_WRITTEN);
    expect(readFactors({ window: -3, rate: 99 })).toEqual({ window: 1, rate: MOST_FACTORS.rate });
    fc.assert(
      fc.property(reached, (factors) => {
        expect(readFactors(factors)).toEqual(factors);
      }),
    );
  });

  it('is due after a minute, and when the last one lies far ahead, because another clock told its time', () => {
    const now = 1_700_000_000_000;
    expect([0, now - STEP_EVERY_MS, now + STEP_EVERY_MS].map((last) => isStepDue(last, now))).toEqual([
      true,
      true,
      true,
    ]);
    expect([now - STEP_EVERY_MS + 1, now, now + 5_000].map((last) => isStepDue(last, now))).toEqual([
      false,
      false,
      false,
    ]);
  });
});

describe('a dynamic policy under load', () => {
  it('has the numbers of the worked table: windows rounded down, the tolerated failures rounded down', () => {
    const twice: Factors = { window: 2.25, rate: 1.44 };
    expect(scaledPolicy(count(10, 70), { window: 1.5, rate: 1.2 })).toMatchObject({
      window: { size: 15 },
      successRate: 6_400,
    });
    expect(scaledPolicy(count(10, 70), twice)).toMatchObject({ window: { size: 22 }, successRate: 5_680 });
    expect(scaledPolicy(count(10, 70), MOST_FACTORS)).toMatchObject({ window: { size: 50 }, successRate: 3_780 });
    expect(scaledPolicy(count(1, 100), { window: 1.5, rate: 1.2 })).toMatchObject({
      window: { size: 1 },
      successRate: 10_000,
    });
    expect(scaledPolicy(count(1_000, 10), MOST_FACTORS)).toMatchObject({ window: { size: 1_000 }, successRate: 100 });
    expect(scaledPolicy(count(10, 0.5), MOST_FACTORS).successRate).toBe(50);
    expect(scaledPolicy(count(10, 0), MOST_FACTORS).successRate).toBe(0);
  });

  it('is what the table of docs/judging.md says, minute by minute', () => {
    const page = readFileSync(`${checkout}docs/judging.md`, 'utf8').split('## Under load')[1] ?? '';
    const rows = [...page.matchAll(/^\| (\d)[^|]* \| (\d+) \| ([\d.]+) % \| (\d+) \|$/gm)].map((row) =>
      row.slice(1).map(Number),
    );
    const computed = [0, 1, 2, 3, 4].map((minutes) => {
      const { window, successRate } = scaledPolicy(
        count(10, 70),
        new Array<number>(minutes).fill(0.9).reduce(nextFactors, AS_WRITTEN),
      );
      const size = window.kind === 'count' ? window.size : 0;
      const model = new CountWindow(size, []);
      let failures = 0;
      do {
        model.push('0');
        failures += 1;
      } while (!model.isFailing(failures, successRate));
      return [minutes, size, successRate / 100, failures];
    });
    expect(rows).toEqual(computed);
  });

  it('is never stricter than written, keeps to the limits of the rules, and returns to what is written', () => {
    fc.assert(
      fc.property(rules, reached, (rule, factors) => {
        const written = policyOf(rule);
        const now = scaledPolicy(written, factors);
        expect(now.window.kind).toBe(written.window.kind);
        const before = sizes(written);
        expect(sizes(now).every((size, i) => Number.isInteger(size) && size >= before[i]!)).toBe(true);
        expect(now.successRate).toBeLessThanOrEqual(written.successRate);
        expect(Number.isInteger(now.successRate)).toBe(true);
        expect(now.successRate).toBeGreaterThanOrEqual(Math.min(100, written.successRate));
        if (now.maxFailures !== undefined) expect(now.maxFailures).toBeGreaterThanOrEqual(written.maxFailures!);
        // As a rule again: whatever leaves a limit is refused there.
        expect(PolicyRule.safeParse(describePolicy(now)).error).toBeUndefined();
        expect(scaledPolicy(written, AS_WRITTEN)).toBe(written);
      }),
    );
  });

  it('keeps the length of the slots of a time window, so that what is stored goes on counting', () => {
    const timed = policyOf({
      window: { kind: 'time', span: '10s', slots: 10, minCalls: 5 },
      dynamic: true,
      maxFailures: 8,
    });
    expect(scaledPolicy(timed, { window: 1.5, rate: 1.2 })).toMatchObject({
      window: { kind: 'time', spanMs: 15_000, slots: 15, minCalls: 7 },
      maxFailures: 12,
    });
    fc.assert(
      fc.property(rules, reached, (rule, factors) => {
        const { window } = policyOf(rule);
        const now = scaledPolicy(policyOf(rule), factors).window;
        if (window.kind !== 'time' || now.kind !== 'time') return;
        expect(Math.ceil(now.spanMs / now.slots)).toBe(Math.ceil(window.spanMs / window.slots));
      }),
    );
  });

  it('judges a steady traffic that was enough to be judged as written: minimal calls grow no faster than the span', () => {
    fc.assert(
      fc.property(rules, reached, (rule, factors) => {
        const { window } = policyOf(rule);
        const now = scaledPolicy(policyOf(rule), factors).window;
        if (!('spanMs' in window && 'spanMs' in now)) return;
        const perMs = window.minCalls / window.spanMs;
        expect(perMs * now.spanMs).toBeGreaterThanOrEqual(now.minCalls - 1e-6);
      }),
    );
    const hour = policyOf({ window: { kind: 'log', span: '1h', minCalls: 10 }, dynamic: true });
    expect(scaledPolicy(hour, MOST_FACTORS).window).toEqual(hour.window);
  });

  it('has the lines of its levels lowered with its success rate, in their order', () => {
    const levels = [
      { name: 'fallback', line: 8_000 },
      { name: 'cached', line: 9_000 },
    ];
    const now = scaledPolicy(count(10, 70, { levels }), { window: 1.5, rate: 1.2 });
    expect(now.levels).toEqual([
      { name: 'fallback', line: 7_600 },
      { name: 'cached', line: 8_800 },
    ]);
  });

  it('keeps counts in a row, minimal failures and the share of slow calls as written', () => {
    const more = { maxConsecutiveFailures: 4, minFailures: 3, slow: { overMs: 100, rate: 5_000 }, minSources: 2 };
    expect(scaledPolicy(count(10, 70, more), MOST_FACTORS)).toMatchObject(more);
  });

  it('is the same object where it is not dynamic, and where the test is sequential', () => {
    const plain = policyOf({ window: 10 });
    const sequential = policyOf({ window: { kind: 'sequential', healthy: 90, failing: 50 }, dynamic: true });
    for (const policy of [plain, sequential]) expect(scaledPolicy(policy, MOST_FACTORS)).toBe(policy);
  });
});

describe('rules with dynamic', () => {
  const rulesOf = (document: object) => {
    const parsed = parseRulesValue({ mode: 'on', ...document });
    if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems));
    return parsed.rules;
  };

  it('are off by default, and can be switched on for all but some', () => {
    expect(rulesOf({ channels: { A: {} } })).toMatchObject({ hasDynamic: false });
    expect(rulesOf({}).policyFor('A').isDynamic).toBeUndefined();
    const some = rulesOf({ defaults: { dynamic: true }, channels: { A: { dynamic: false }, B: { window: 5 } } });
    expect(some.hasDynamic).toBe(true);
    expect(['A', 'B', 'C'].map((channel) => some.policyFor(channel).isDynamic ?? false)).toEqual([false, true, true]);
    expect(describePolicy(some.policyFor('B')).dynamic).toBe(true);
  });

  it.each(['yes', 1, null])('are refused when dynamic is %j', (dynamic) => {
    const parsed = parseRulesValue({ mode: 'on', defaults: { dynamic } });
    expect(parsed).toMatchObject({ ok: false, problems: [{ path: 'defaults.dynamic' }] });
  });
});
