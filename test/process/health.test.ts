import { describe, expect, it } from 'vitest';
import { FINE, Health, StallWatch, waiting } from '../../src/process/health.js';

const LIMITS = { notReadyMs: 10_000, stuckMs: 30_000 };

describe('StallWatch', () => {
  it('is fine while there is progress', () => {
    const watch = new StallWatch('nothing moved', LIMITS, 0);
    watch.look({ progressAt: 59_000 }, 60_000);
    expect(watch.condition(60_000)).toEqual(FINE);
  });

  it('is not ready when nothing moved for the first limit, and stuck after the second', () => {
    const watch = new StallWatch('nothing moved', LIMITS, 0);
    watch.look({ progressAt: 0 }, 10_000);
    expect(watch.condition(10_000)).toEqual(FINE);
    expect(watch.condition(11_000)).toEqual({ ok: false, reason: 'nothing moved for 11 s', stuck: false });
    expect(watch.condition(31_000)).toEqual({ ok: false, reason: 'nothing moved for 31 s', stuck: true });
  });

  it('is not ready but never stuck while paused on purpose, and that time does not count afterwards', () => {
    const watch = new StallWatch('nothing moved', LIMITS, 0);
    for (let now = 0; now <= 300_000; now += 1_000) watch.look({ progressAt: 0, paused: 'Redis is away' }, now);
    expect(watch.condition(300_000)).toEqual({ ok: false, reason: 'Redis is away', stuck: false });
    watch.look({ progressAt: 0 }, 301_000);
    expect(watch.condition(301_000)).toEqual(FINE);
    watch.look({ progressAt: 0 }, 331_000);
    expect(watch.condition(331_000)).toEqual({ ok: false, reason: 'nothing moved for 31 s', stuck: true });
  });
});

describe('Health', () => {
  it('is ready when every part is, and live unless a part is stuck', () => {
    const health = new Health();
    expect(health.report()).toEqual({ live: true, ready: true, checks: {} });
    health.watch('a', () => FINE);
    health.watch('b', () => waiting('Redis is away'));
    expect(health.report()).toMatchObject({ live: true, ready: false });
    health.watch('b', () => ({ ok: false, reason: 'nothing moved for 31 s', stuck: true }));
    expect(health.report()).toMatchObject({ live: false, ready: false });
    health.watch('b', () => FINE);
    expect(health.report()).toMatchObject({ live: true, ready: true });
  });
});
