import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatDuration, parseDuration } from '../../src/domain/duration.js';
import { glob } from '../../src/domain/glob.js';

describe('a glob', () => {
  it.each([
    ['CARD_*', 'CARD_', true],
    ['CARD_*', 'CARD', false],
    ['*', '', true],
    ['', '', true],
    ['', 'a', false],
    ['a*b', 'ab', true],
    ['ab*ba', 'aba', false],
    ['*a*b*', 'xaxbx', true],
    ['*a*b*', 'xbxax', false],
    ['a**b', 'a-b', true],
    ['a.c', 'abc', false],
    ['[ab]?*', '[ab]?x', true],
    ['*支付', '微信支付', true],
  ])('%s on %s is %s', (pattern, text, matches) => {
    expect(glob(pattern)(text)).toBe(matches);
  });

  it('says what trying every way would say', () => {
    const word = fc.string({ unit: fc.constantFrom('a', 'b', '*'), maxLength: 8 });
    fc.assert(
      fc.property(word, fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 12 }), (pattern, text) => {
        expect(glob(pattern)(text)).toBe(everyWay(pattern, text));
      }),
    );
  });

  it('answers at once where a regular expression would go back for ever', () => {
    const startedAt = performance.now();
    expect(glob(`${'*a'.repeat(60)}*b`)(`${'a'.repeat(100_000)}c`)).toBe(false);
    expect(performance.now() - startedAt).toBeLessThan(200);
  });
});

function everyWay(pattern: string, text: string): boolean {
  if (pattern === '') return text === '';
  if (pattern[0] !== '*') return text[0] === pattern[0] && everyWay(pattern.slice(1), text.slice(1));
  return Array.from({ length: text.length + 1 }, (_, i) => i).some((i) => everyWay(pattern.slice(1), text.slice(i)));
}

describe('a duration', () => {
  it.each([
    ['1500ms', 1_500],
    ['30s', 30_000],
    ['30m', 1_800_000],
    ['2h', 7_200_000],
    ['1d', 86_400_000],
    ['366d', 366 * 86_400_000],
    ['0', 0],
    [0, 0],
    ['0s', 0],
  ])('of %j is %d ms', (text, ms) => expect(parseDuration(text)).toBe(ms));

  it.each([
    30,
    '30',
    '',
    ' 30s',
    '30 s',
    '1h30m',
    '-1s',
    '1.5h',
    '1e3ms',
    'Infinity',
    '367d',
    '999999999999h',
    null,
    undefined,
    {},
  ])('is not %j', (text) => {
    expect(parseDuration(text)).toBeUndefined();
  });

  it('is written so that it is read back the same', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 366 * 86_400_000 }), (ms) => {
        expect(parseDuration(formatDuration(ms))).toBe(ms);
      }),
    );
    expect([1_800_000, 90_000, 1, 86_400_000].map(formatDuration)).toEqual(['30m', '90s', '1ms', '1d']);
  });
});
