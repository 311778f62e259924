import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ChannelBatch, cutBatch, isAfter } from '../../src/domain/batch.js';

const batch: fc.Arbitrary<ChannelBatch> = fc
  .record({
    entries: fc.array(fc.string({ unit: fc.constantFrom('0', '1', '2'), minLength: 1, maxLength: 9 }), {
      minLength: 1,
      maxLength: 30,
    }),
    timed: fc.boolean(),
  })
  .map(({ entries, timed }) => {
    const results = entries.join('');
    return {
      partition: 'test/log/0/0',
      results,
      entries: entries.map((one, i) => [`${i + 1}`, i, one.length] as const),
      times: timed ? [...results].flatMap((_, i) => [i, -i]) : [],
      evidence: [...results].flatMap((one, i) => (one === '0' ? [`failure ${i}`] : [])),
    };
  });

describe('a batch', () => {
  it('cut in parts loses nothing, keeps each entry whole and in order, and each part within the bound', () => {
    fc.assert(
      fc.property(batch, fc.integer({ min: 1, max: 40 }), (whole, most) => {
        const parts = cutBatch(whole, most);
        const joined = {
          partition: whole.partition,
          results: parts.map(({ results }) => results).join(''),
          entries: parts.flatMap(({ entries }) => entries),
          times: parts.flatMap(({ times }) => times),
          evidence: parts.flatMap(({ evidence }) => evidence),
        };
        expect(joined).toEqual(whole);
        for (const part of parts) {
          expect(part.results.length <= most || part.entries.length === 1).toBe(true);
          expect(part.results.length).toBe(part.entries.reduce((sum, [, , n]) => sum + n, 0));
          expect(part.evidence.length).toBe(part.results.replaceAll(/[12]/g, '').length);
          expect([0, 2 * part.results.length]).toContain(part.times.length);
        }
      }),
    );
  });
});

describe('a position', () => {
  it('is compared as the 64-bit numbers that it holds', () => {
    const half = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
    fc.assert(
      fc.property(half, half, half, half, (a, b, c, d) => {
        expect(isAfter(`${a}`, `${b}`)).toBe(a > b);
        expect(isAfter(`${a}-${b}`, `${c}-${d}`)).toBe(a > c || (a === c && b > d));
        expect(isAfter(`${a}-${b}`, `${a}-${d}`)).toBe(b > d);
      }),
    );
  });
});
