import { describe, expect, it } from 'vitest';
import { type FloorCandidate, leastBad } from '../../src/domain/floor.js';

const channel = (name: string, fields: Partial<FloorCandidate> = {}): FloorCandidate => ({
  ...{ channel: name, group: 'pay', blocked: true, state: 'open', endsAt: 1_000, byHand: false },
  ...fields,
});
const floorOf = (least: number) => (group: string) => (group === 'pay' ? least : 0);

describe('the floor', () => {
  it('2.13 shows half-open before open, then the block that ends soonest, then the caller’s order', () => {
    const list = [
      channel('endless', { endsAt: -1 }),
      channel('late', { endsAt: 9_000 }),
      channel('soon-second', { endsAt: 2_000 }),
      channel('soon-third', { endsAt: 2_000 }),
      channel('trying', { state: 'half-open', endsAt: 99_000 }),
    ];
    expect(leastBad(list, floorOf(5))).toEqual(['trying', 'soon-second', 'soon-third', 'late', 'endless']);
    expect(leastBad(list, floorOf(2))).toEqual(['trying', 'soon-second']);
  });

  it('1.23 adds only as many as the visible ones leave missing', () => {
    const list = [channel('a'), channel('b', { blocked: false }), channel('c', { endsAt: 500 })];
    expect(leastBad(list, floorOf(0))).toEqual([]);
    expect(leastBad(list, floorOf(1))).toEqual([]);
    expect(leastBad(list, floorOf(2))).toEqual(['c']);
    expect(leastBad(list, floorOf(9))).toEqual(['c', 'a']);
  });

  it('never shows a channel that was blocked by hand, even if nothing is left', () => {
    expect(leastBad([channel('a', { byHand: true })], floorOf(1))).toEqual([]);
    expect(leastBad([channel('a', { byHand: true }), channel('b')], floorOf(2))).toEqual(['b']);
  });

  it('counts a channel once, however many items go through it', () => {
    const twice = [channel('a', { blocked: false }), channel('a', { blocked: false }), channel('b')];
    expect(leastBad(twice, floorOf(2))).toEqual(['b']);
  });

  it('leaves other groups, and channels without a group, alone', () => {
    expect(leastBad([channel('a', { group: 'sms' }), channel('b', { group: undefined })], floorOf(2))).toEqual([]);
  });
});
