import { describe, expect, it } from 'vitest';
import { createFakeFuseline } from '../../src/testing/index.js';

describe('createFakeFuseline', () => {
  it('judges by the defaults without rules: ten calls, 70 %, half an hour', () => {
    const fuse = createFakeFuseline();
    for (let i = 0; i < 4; i += 1) fuse.publish({ channel: 'A', success: false });
    expect(fuse.isBlocked('A')).toBe(true);
    fuse.advance(30 * 60_000 - 1);
    expect(fuse.isBlocked('A')).toBe(true);
    fuse.advance(1);
    expect(fuse.isBlocked('A')).toBe(false);
    expect(fuse.transitions.map(({ kind }) => kind)).toEqual(['blocked', 'recovered']);
  });

  it('takes everything that is due when the clock is moved, in order and each as of its own time', () => {
    const fuse = createFakeFuseline({
      rules: { mode: 'on', defaults: { block: '10s', hold: '20s' } },
      startsAtMs: 5_000,
    });
    fuse.block('A', 3_000);
    fuse.block('B', 1_000);
    const heard: string[] = [];
    fuse.on('transition', ({ channel, kind, at }) => void heard.push(`${channel} ${kind} ${at}`));
    fuse.advance(3_600_000);
    expect(heard).toEqual(['B recovered 6000', 'A recovered 8000', 'B held 26000', 'A held 28000']);
  });

  it('keeps every valid outcome as it was when it was published', () => {
    const fuse = createFakeFuseline();
    const outcome = { channel: 'A', success: false, code: 'E1', durationMs: 12 };
    fuse.publish(outcome);
    outcome.code = 'changed';
    fuse.publish({ channel: 'A', success: 'perhaps' } as never);
    expect(fuse.published).toEqual([{ channel: 'A', success: false, code: 'E1', durationMs: 12 }]);
  });

  it('blocks without end until it is unblocked, however far the clock goes', () => {
    const fuse = createFakeFuseline();
    fuse.block('A', -1);
    fuse.advance(365 * 86_400_000);
    expect(fuse.isBlocked('A')).toBe(true);
    expect(fuse.status()).toMatchObject({ size: 1, blocked: 1 });
    fuse.unblock('A');
    expect(fuse.isBlocked('A')).toBe(false);
    expect(fuse.status()).toMatchObject({ size: 1, blocked: 0 });
  });

  it('judges calls of any length, though its clock stands still', () => {
    const fuse = createFakeFuseline();
    for (let i = 0; i < 4; i += 1) fuse.publish({ channel: 'A', success: false, durationMs: 60_000 });
    expect(fuse.isBlocked('A')).toBe(true);
  });

  it('refuses rules that the workers would refuse, a clock that goes back, and a name that is none', () => {
    expect(() => createFakeFuseline({ rules: { mode: 'maybe' } })).toThrow(/mode/);
    const fuse = createFakeFuseline();
    expect(() => fuse.advance(-1)).toThrow(/from 0, got -1/);
    expect(() => fuse.advance(Number.NaN)).toThrow(RangeError);
    expect(() => fuse.block('a{b')).toThrow(/channel must not hold/);
  });

  it('names its channels by type', () => {
    const fuse = createFakeFuseline<'ALIPAY' | 'WECHAT'>();
    // @ts-expect-error not in the list
    fuse.block('STRIPE');
    fuse.block('ALIPAY');
    expect(fuse.isBlocked('ALIPAY')).toBe(true);
  });
});
