import fc from 'fast-check';
import { expect, it } from 'vitest';
import { describePolicy } from '../../src/domain/describe.js';
import { parseRulesValue } from '../../src/domain/rules.js';

const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const percent = (least = 0, most = 100) =>
  fc.integer({ min: least * 100, max: most * 100 }).map((hundredths) => hundredths / 100);
const whole = (min: number, max: number) => fc.integer({ min, max });
/** A duration within ms, written in any unit that fits. */
const time = (min: number, max: number) =>
  fc
    .tuple(whole(min, max), fc.constantFrom(['ms', 1], ['s', 1_000], ['m', 60_000], ['h', 3_600_000]))
    .map(([ms, [unit, length]]) => {
      const n = Math.round(ms / Number(length)) * Number(length);
      return n >= min && n <= max ? `${n / Number(length)}${unit}` : `${ms}ms`;
    });
const span = time(1_000, 3_600_000);
const falseBlocks = fc.constantFrom('1 per million', '12345.678 per billion', '0.3 per thousand', '99.999 per million');
const count = fc.oneof(
  whole(1, 1_000),
  whole(1, 1_000).map((size) => ({ kind: 'count', size })),
);
const timeWindow = fc.record(
  { kind: fc.constant('time'), span, slots: whole(1, 120), minCalls: whole(1, 1_000_000) },
  { requiredKeys: ['kind', 'span'] },
);
const log = fc.record(
  { kind: fc.constant('log'), span, minCalls: whole(1, 50), maxEntries: whole(50, 10_000) },
  { requiredKeys: ['kind', 'span'] },
);
const sequential = fc.record(
  { kind: fc.constant('sequential'), healthy: percent(60, 99), failing: percent(1, 50), falseBlocks },
  { requiredKeys: ['kind', 'healthy', 'failing'] },
);
const slowCall = time(1, 3_600_000);
const slowAs = fc.record({ slowCall, slowAs: maybe(fc.constant('failure')) });
const slowRate = fc.record({ slowCall, slowRate: maybe(percent()) });
const slow = (share: boolean): fc.Arbitrary<object> =>
  share ? fc.oneof(fc.constant({}), slowAs, slowRate) : fc.oneof(fc.constant({}), slowAs);
const kinds = {
  count: { window: count, slow: slow(true), maxFailures: fc.constant(undefined) },
  time: { window: timeWindow, slow: slow(true), maxFailures: maybe(whole(0, 100_000)) },
  log: { window: log, slow: slow(true), maxFailures: maybe(whole(0, 100_000)) },
  sequential: { window: sequential, slow: slow(false), maxFailures: fc.constant(undefined) },
} as const;

it.each(Object.entries(kinds))(
  'a policy of kind %s, described and read back as a rule, is the same policy',
  (_kind, { window, slow, maxFailures }) => {
    const rule = fc
      .record({
        mode: maybe(fc.constantFrom('on', 'observe', 'off')),
        window,
        maxFailures,
        successRate: maybe(percent()),
        block: maybe(
          fc.oneof(
            time(1, 86_400_000),
            fc.record(
              {
                for: time(1, 86_400_000),
                growth: fc.constantFrom(1, 1.5, 2, 100),
                max: time(86_400_000, 366 * 86_400_000),
                jitter: percent(0, 50),
                timesMean: fc.constantFrom(1, 2.5, 10),
              },
              { requiredKeys: ['for'] },
            ),
          ),
        ),
        hold: maybe(fc.oneof(fc.constant(0), time(1, 86_400_000))),
        ignore: maybe(fc.uniqueArray(fc.constantFrom('A', 'B*'))),
        codes: maybe(
          fc.record({
            success: maybe(fc.uniqueArray(fc.constantFrom('C', 'D*'))),
            failure: maybe(fc.uniqueArray(fc.constantFrom('E', '*F'))),
            ignored: maybe(fc.uniqueArray(fc.constantFrom('G', 'H'))),
          }),
        ),
        minFailures: maybe(fc.constant(1)),
        maxConsecutiveFailures: maybe(whole(0, 100_000)),
        minSources: maybe(whole(1, 20)),
        rateLimited: maybe(
          fc.oneof(
            fc.constant('count'),
            fc.record({ min: maybe(time(1_000, 60_000)), max: maybe(time(60_000, 300_000)) }),
          ),
        ),
        group: maybe(fc.constant('pay')),
      })
      .map(({ hold, ...rest }) => {
        // A block that is learned needs a hold.
        const learns = typeof rest.block === 'object' && rest.block.timesMean !== undefined;
        return { ...rest, hold: learns && hold === 0 ? undefined : hold };
      });
    fc.assert(
      fc.property(rule, slow, (one, slowness) => {
        const read = (written: object) => {
          const plain = JSON.parse(JSON.stringify(written)) as object;
          const parsed = parseRulesValue({ mode: 'on', channels: { A: plain } });
          if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems));
          return parsed.rules.policyFor('A');
        };
        const policy = read({ ...one, ...slowness });
        expect(read(describePolicy(policy))).toEqual(policy);
      }),
      { numRuns: 100 },
    );
  },
);

it('a policy that never blocks by its rate, but tells levels, is described so that it can be read back', () => {
  const parsed = parseRulesValue({ mode: 'on', channels: { A: { successRate: 0, levels: { degraded: 50 } } } });
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems));
  const described = describePolicy(parsed.rules.policyFor('A'));
  const again = parseRulesValue({ channels: { A: described } });
  expect(again.ok && again.rules.policyFor('A')).toEqual(parsed.rules.policyFor('A'));
});
