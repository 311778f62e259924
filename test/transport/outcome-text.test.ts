import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Outcome } from '../../src/domain/outcome.js';
import { outcomeText } from '../../src/transport/outcome-text.js';

describe('the text of an outcome', () => {
  it('is JSON of all its fields and its waiting time, whatever has to be escaped', () => {
    const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
    const outcomes = fc.record({
      channel: fc.string({ unit: 'binary' }),
      success: fc.boolean(),
      durationMs: optional(fc.double({ min: 0, max: 3_600_000, noNaN: true })),
      agoMs: optional(fc.nat()),
      code: optional(fc.string({ unit: 'binary' })),
      source: optional(fc.string()),
      at: optional(fc.oneof(fc.integer(), fc.string())),
    });
    fc.assert(
      fc.property(outcomes, fc.nat(), (outcome, agoMs) => {
        expect(JSON.parse(outcomeText(outcome as Outcome, agoMs))).toEqual(
          JSON.parse(JSON.stringify({ ...outcome, agoMs })),
        );
      }),
    );
  });
});
