import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seeded } from '../../bench/judgement.mjs';
import {
  callsToBlock,
  failuresToBlock,
  formatFalseBlocks,
  parseFalseBlocks,
  type SequentialTest,
  sequentialTest,
} from '../../src/domain/window/sequential-test.js';
import { SequentialWindow } from '../../src/domain/window/sequential-window.js';

/** Mean calls to the block, and its standard error, of so many channels that begin healthy. */
function simulate(test: SequentialTest, successes: number, blocks: number, seed: number) {
  const random = seeded(seed);
  const window = new SequentialWindow(test);
  let [sum, squares] = [0, 0];
  for (let i = 0; i < blocks; i += 1) {
    let calls = 0;
    do {
      window.push(random() < successes ? '1' : '0');
      calls += 1;
    } while (!window.isFailing());
    window.clear();
    sum += calls;
    squares += calls * calls;
  }
  const mean = sum / blocks;
  return { mean, error: Math.sqrt((squares / blocks - mean * mean) / blocks) };
}

describe('the sequential test', () => {
  it.each([
    [0.95, 0.5, 0.001, 0.95],
    [0.95, 0.5, 0.001, 0.8],
    [0.9, 0.5, 1e-6, 0.5],
    [0.9, 0.5, 1e-6, 0],
    [0.8, 0.4, 0.001, 0.8],
    [0.99, 0.9, 0.001, 0.95],
  ])('for %d against %d at %d false blocks takes as many calls at %d as simulation shows', (good, bad, rate, at) => {
    const test = sequentialTest(good, bad, rate);
    const { mean, error } = simulate(test, at, 2_000, 11);
    expect(Math.abs(mean - callsToBlock(test, at))).toBeLessThanOrEqual(4 * error);
    // Tight enough that a limit one failure higher or lower would be seen.
    for (const off of [-test.up, test.up]) {
      const other = callsToBlock({ ...test, limit: test.limit + off }, at);
      expect(Math.abs(mean - other)).toBeGreaterThan(4 * error);
    }
  });

  it('has the smallest limit that keeps false blocks as rare as wanted', () => {
    const rates = fc.constantFrom(1e-9, 1e-6, 3e-5, 0.001, 0.01);
    const shares = fc.tuple(fc.integer({ min: 100, max: 9_400 }), fc.integer({ min: 500, max: 9_800 }));
    fc.assert(
      fc.property(shares, rates, ([failing, gap], rate) => {
        const healthy = Math.min(failing + gap, 9_990) / 10_000;
        const test = sequentialTest(healthy, failing / 10_000, rate);
        expect(callsToBlock(test, healthy) * rate).toBeGreaterThanOrEqual(1);
        const smaller = { ...test, limit: test.limit - 1 };
        if (smaller.limit > 0) expect(callsToBlock(smaller, healthy) * rate).toBeLessThan(1);
      }),
      { numRuns: 40 },
    );
  });

  it('never blocks what never fails, and counts failures in a row as the window does', () => {
    const test = sequentialTest(0.9, 0.5, 1e-6);
    expect(callsToBlock(test, 1)).toBe(Number.POSITIVE_INFINITY);
    expect(callsToBlock(test, 0)).toBe(failuresToBlock(test));
    const window = new SequentialWindow(test);
    for (let i = 1; i < failuresToBlock(test); i += 1) window.push('0');
    expect(window.isFailing()).toBe(false);
    window.push('0');
    expect(window.isFailing()).toBe(true);
  });
});

describe('falseBlocks', () => {
  it.each([
    ['1 per million', 1e-6],
    ['0.5 per thousand', 5e-4],
    ['10 per thousand', 0.01],
    ['1 per billion', 1e-9],
    ['12345.678 per billion', 12345.678 / 1e9],
  ])('%j is %d a call', (text, share) => expect(parseFalseBlocks(text)).toBe(share));

  it.each([
    ...['0 per million', '11 per thousand', '0.5 per billion', '0.0001 per thousand', '100000 per billion'],
    ...[
      '1 per Million',
      '1 per hundred',
      '1e-6',
      '-1 per million',
      ' 1 per million',
      '1  per million',
      '1. per million',
    ],
  ])('%j is refused', (text) => expect(parseFalseBlocks(text)).toBeUndefined());

  it('is told by a text that reads back to the last bit, whatever text it came from', () => {
    const text = fc
      .tuple(fc.integer({ min: 0, max: 99_999 }), fc.integer({ min: 0, max: 999 }), fc.integer({ min: 0, max: 3 }))
      .map(([whole, thousandths, digits]) =>
        digits === 0 ? String(whole) : `${whole}.${String(thousandths).padStart(3, '0').slice(0, digits)}`,
      );
    fc.assert(
      fc.property(text, fc.constantFrom('thousand', 'million', 'billion'), (number, unit) => {
        const share = parseFalseBlocks(`${number} per ${unit}`);
        fc.pre(share !== undefined);
        expect(parseFalseBlocks(formatFalseBlocks(share!))).toBe(share);
      }),
      { numRuns: 3_000 },
    );
    expect(formatFalseBlocks(1e-6)).toBe('1 per million');
    expect(formatFalseBlocks(5e-4)).toBe('500 per million');
  });
});
