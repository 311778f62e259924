import { describe, expect, it } from 'vitest';
import { isDrawn } from '../../src/domain/trial.js';

const BLOCK = 1_760_000_000_000;
const users = Array.from({ length: 100_000 }, (_, i) => `user-${i}`);
const drawn = (share: number, block = BLOCK) => new Set(users.filter((key) => isDrawn({ step: 0, block, share }, key)));

describe('the share of users that tries a half-open channel', () => {
  it.each([1, 100, 1_000, 2_000, 5_000, 9_999])('is as large as it says: %i hundredths of a percent', (share) => {
    const expected = (users.length * share) / 10_000;
    // Four standard deviations of a fair draw.
    const tolerance = 4 * Math.sqrt(expected * (1 - share / 10_000));
    expect(Math.abs(drawn(share).size - expected)).toBeLessThanOrEqual(tolerance);
  });

  it('is drawn evenly from keys of any shape: numbers in a row, one character, ids with a common end', () => {
    const shapes = [
      (i: number) => String(i),
      (i: number) => String.fromCodePoint(0x4e00 + (i % 20_000)),
      (i: number) => `${i}@example.com`,
      (i: number) => `00000000-0000-4000-8000-${i.toString(16).padStart(12, '0')}`,
    ];
    for (const shape of shapes) {
      const keys = [...new Set(Array.from({ length: 20_000 }, (_, i) => shape(i)))];
      const share = keys.filter((key) => isDrawn({ step: 0, block: BLOCK, share: 1_000 }, key)).length / keys.length;
      expect(share, shape(7)).toBeGreaterThan(0.09);
      expect(share, shape(7)).toBeLessThan(0.11);
    }
  });

  it('1.29 keeps everybody who is in as it grows', () => {
    const steps = [1_000, 2_000, 5_000, 9_999].map((share) => drawn(share));
    for (const [i, step] of steps.slice(1).entries()) expect([...steps[i]!].every((key) => step.has(key))).toBe(true);
  });

  it('draws other users at each attempt: of a tenth a hundredth is hit twice, also when the attempts are 1 ms apart', () => {
    const first = drawn(1_000);
    for (const later of [1, 1_000, 1_800_000]) {
      const twice = [...drawn(1_000, BLOCK + later)].filter((key) => first.has(key)).length;
      expect(twice / users.length, String(later)).toBeGreaterThan(0.008);
      expect(twice / users.length, String(later)).toBeLessThan(0.012);
    }
  });

  it('has nobody without a key in it, and everybody with one at 100 %', () => {
    expect(isDrawn({ step: 0, block: BLOCK, share: 10_000 }, undefined)).toBe(false);
    for (const key of ['', null, Number.prototype.valueOf, Symbol('u'), Object.create(null), ['u'], true, Number.NaN])
      expect(isDrawn({ step: 0, block: BLOCK, share: 10_000 }, key)).toBe(false);
    expect(isDrawn({ step: 0, block: BLOCK, share: 10_000 }, 0)).toBe(true);
    expect(drawn(10_000).size).toBe(users.length);
    expect(isDrawn({ step: 0, block: BLOCK, permits: 3 }, 'user-1')).toBe(false);
  });

  it('is the same in every version: processes of two versions run side by side during a deployment', () => {
    const among = ['ann', 'bob', 'cem', '王', 'user-7'].map((key) =>
      isDrawn({ step: 0, block: BLOCK, share: 5_000 }, key),
    );
    expect(among).toMatchInlineSnapshot(`
      [
        true,
        false,
        false,
        false,
        false,
      ]
    `);
    expect(
      users.filter((key) => isDrawn({ step: 0, block: BLOCK, share: 1_000 }, key)).slice(0, 5),
    ).toMatchInlineSnapshot(`
      [
        "user-3",
        "user-19",
        "user-34",
        "user-37",
        "user-58",
      ]
    `);
  });
});
