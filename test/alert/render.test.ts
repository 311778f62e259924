import { describe, expect, it } from 'vitest';
import { plainText } from '../../src/alert/message.js';
import { duration, isTold, render } from '../../src/alert/render.js';
import { cut, oneLine } from '../../src/alert/text.js';
import { WORDS } from '../../src/alert/words.js';
import { type Transition, TransitionKind } from '../../src/domain/transition.js';
import { blocked, degraded, floorBites, recovered } from './samples.js';

const en = { locale: 'en', timeZone: 'UTC' } as const;
const text = (...args: Parameters<typeof render>) => plainText(render(...args), false);

describe('a message', () => {
  it('says of a block what the person on call needs', () => {
    expect(text(blocked(), en).split('\n')).toEqual([
      'ALIPAY is blocked',
      'Channel: ALIPAY',
      'State: blocked',
      'Reason: too few successes',
      'Last calls: 4 failed, 3 succeeded, 3 assumed to have succeeded, of 10',
      'Success rate: 60 %, threshold 70 %',
      'Top codes: TIMEOUT ×3, 500 ×1',
      'Top sources: checkout@a ×3, checkout@b ×1',
      'Since: 2026-03-01 10:30:00 (UTC)',
      'Next try: 2026-03-01 11:00:00 (UTC), after 30 min',
      `Incident: ${blocked().incident}`,
    ]);
  });

  it('is written in Chinese, with the times of the receiver, where the receiver wants that', () => {
    const lines = text(blocked({ kind: 'relapsed', trips: 3 }), { locale: 'zh-CN', timeZone: 'Asia/Shanghai' });
    expect(lines).toContain('ALIPAY 再次熔断（第 2 次复发）');
    expect(lines).toContain('记录失败 4 次、成功 3 次，另有 3 次视为成功，共 10 次');
    expect(lines).toContain('再次尝试: 2026-03-01 19:00:00 (Asia/Shanghai)，30 分钟后');
    expect(lines).not.toMatch(/[{}]/);
  });

  it('says of a block by hand who did it, why, and that it does not end by itself', () => {
    const byHand = blocked({
      until: -1,
      reason: 'manual',
      actor: 'ann',
      note: 'contract\nended',
      size: undefined,
      evidence: [],
    });
    expect(text(byHand, en)).toContain('Reason: by hand, ann\nNote: contract ended\n');
    expect(text(byHand, en)).toContain('Until: somebody unblocks it');
    expect(text(byHand, en)).not.toContain('Last calls');
  });

  it('says of a recovery how long the channel was blocked, and can tell of the block as well', () => {
    const message = render(recovered(), en);
    expect(plainText(message, false)).toContain('Blocked: 30 min, 2026-03-01 10:30:00 to 2026-03-01 11:00:00 (UTC)');
    expect(plainText(message, false)).not.toContain(WORDS.en.untold);
    expect(plainText(message, true)).toContain(WORDS.en.untold);
  });

  it.each([
    [1, 'relapses: 0', '共复发 0 次'],
    [2, 'relapses: 1', '共复发 1 次'],
  ])('tells the number of relapses in good grammar after %i blocks', (trips, english, chinese) => {
    const held = blocked({ kind: 'held', to: 'closed', trips });
    expect(text(held, en)).toContain(`Incident: ${held.incident}, ${english}`);
    expect(text(held, { locale: 'zh-CN', timeZone: 'UTC' })).toContain(`${held.incident}，${chinese}`);
  });

  it('exists for every kind that people are told of, in both languages, with every gap filled', () => {
    for (const kind of TransitionKind.options.filter((kind) => isTold(kind) && kind !== 'floor')) {
      for (const locale of ['en', 'zh-CN'] as const) {
        const written = text(blocked({ kind, trips: 2 }), { locale, timeZone: 'Asia/Shanghai' });
        expect(written, `${kind} ${locale}`).not.toMatch(/[{}]|undefined|NaN/);
      }
    }
    expect(() => render(blocked({ kind: 'half-open' }), en)).toThrow(/half-open/);
  });

  it('says of a group that runs out of channels which one is shown all the same, and until when', () => {
    const more = { channel: 'WECHAT\n', until: -1 };
    expect(text(floorBites(), en).split('\n')).toEqual([
      'Group pay runs out of channels: ALIPAY is shown although blocked',
      'Group: pay',
      'Channels in use: 0 of 2, at least 1 must be shown',
      'Shown although blocked: ALIPAY (blocked until 2026-03-01 11:00:00 (UTC))',
      'Since: 2026-03-01 10:30:00 (UTC)',
    ]);
    const two = floorBites({ shown: [...floorBites().group!.shown, more] });
    expect(text(two, en)).toContain('11:00:00 (UTC)), WECHAT (blocked without end)\n');
    expect(text(two, { locale: 'zh-CN', timeZone: 'Asia/Shanghai' }).split('\n')).toEqual([
      '渠道组 pay 可用渠道不足：ALIPAY、WECHAT 虽已熔断仍继续展示',
      '渠道组: pay',
      '可用渠道: 共 2 个，剩 0 个，至少须展示 1 个',
      '熔断中仍展示: ALIPAY（熔断至 2026-03-01 19:00:00 (Asia/Shanghai)）、WECHAT（无限期熔断）',
      '开始时间: 2026-03-01 18:30:00 (Asia/Shanghai)',
    ]);
    const none = text(floorBites({ shown: [] }), en);
    expect(none).toContain('Group pay runs out of channels: nothing is left to show\n');
    expect(none).toContain('Shown although blocked: none, because people blocked them\n');
    expect(render(floorBites(), en).mention).toBe(true);
  });

  it('says in words what another program did to the block key', () => {
    const set = blocked({ reason: 'external', size: undefined, evidence: [] });
    expect(text(set, en)).toContain('Reason: set by another program\n');
    expect(text(set, { locale: 'zh-CN', timeZone: 'UTC' })).toContain('原因: 由其他程序设置\n');
    const moved = { reason: 'external', size: undefined, evidence: [] };
    expect(text(blocked({ ...moved, kind: 'extended' }), en)).toMatch(
      /^The block of ALIPAY was extended\n[\s\S]*Reason: set by another program\n/,
    );
    expect(text(blocked({ ...moved, kind: 'shortened' }), en)).toMatch(/^The block of ALIPAY was shortened\n/);
    expect(text(recovered({ reason: 'deleted' }), en)).toContain('Reason: the block key was deleted\n');
    expect(text(recovered({ reason: 'deleted' }), { locale: 'zh-CN', timeZone: 'UTC' })).toContain('熔断键被删除');
  });

  it('says of a level which one it is, by what rate, and when the channel is at none any more', () => {
    expect(text(degraded(), en).split('\n')).toEqual([
      'ALIPAY is degraded: cached',
      'Channel: ALIPAY',
      'State: in use',
      'Reason: its success rate; a level is left 5 points above its line',
      'Last calls: 9 failed, 11 succeeded, 0 assumed to have succeeded, of 20',
      'Success rate: 55 %, threshold 60 %',
      'Top codes: TIMEOUT ×3, 500 ×1',
      'Top sources: checkout@a ×3, checkout@b ×1',
      'Since: 2026-03-01 10:30:00 (UTC)',
    ]);
    expect(text(degraded({ incident: '7' }), en)).toMatch(/Incident: 7$/);
    const chinese = text(degraded(), { locale: 'zh-CN', timeZone: 'Asia/Shanghai' });
    expect(chinese).toContain('ALIPAY 已降级：cached\n');
    expect(chinese).toContain('原因: 成功率决定级别；高出界线 5 个百分点才解除\n');
    expect(text(degraded({ before: 'fallback' }), en)).toMatch(
      /^ALIPAY is now degraded as cached, before as fallback\n/,
    );
    const over = degraded({ level: '', before: 'cached', threshold: undefined, evidence: [] });
    expect(text(over, en)).toMatch(/^ALIPAY is no longer degraded\n[\s\S]*Reason: success rate clear of every level/);
    expect(text(over, { locale: 'zh-CN', timeZone: 'UTC' })).toMatch(
      /^ALIPAY 已不再降级\n[\s\S]*原因: 成功率已明显高于/,
    );
    expect([render(degraded(), en).mention, render(over, en).mention]).toEqual([false, false]);
  });

  it('reminds of a block that waits for a hand in words of its own, and calls people for it', () => {
    const reminder = blocked({
      kind: 'extended',
      reason: 'awaits-release',
      from: 'open',
      size: undefined,
      evidence: [],
    });
    expect(text(reminder, en).split('\n')).toEqual([
      'ALIPAY is still blocked: somebody must unblock it',
      'Channel: ALIPAY',
      'State: blocked',
      'Reason: it waits for somebody to unblock it',
      'Since: 2026-03-01 10:30:00 (UTC)',
      'Next reminder: 2026-03-01 11:00:00 (UTC), after 30 min',
      `Incident: ${reminder.incident}`,
    ]);
    const chinese = text(reminder, { locale: 'zh-CN', timeZone: 'Asia/Shanghai' });
    expect(chinese).toMatch(/^ALIPAY 仍在熔断：需要人工解除\n/);
    expect(chinese).toContain('下次提醒: 2026-03-01 19:00:00 (Asia/Shanghai)，30 分钟后');
    expect(render(reminder, en).mention).toBe(true);
  });

  it('promises no new try of a block that only a person ends', () => {
    const byHand = { ...en, isReleasedByHand: true };
    expect(text(blocked(), en)).toContain('Next try: 2026-03-01 11:00:00 (UTC)');
    expect(text(blocked(), byHand)).toContain('Next reminder: 2026-03-01 11:00:00 (UTC)');
    expect(text(blocked(), byHand)).not.toContain('Next try');
    expect(text(blocked({ until: -1 }), byHand)).toContain('Until: somebody unblocks it');
    const observed = text(blocked({ kind: 'observed' }), byHand);
    expect(observed).toContain('Until: 2026-03-01 11:00:00 (UTC)');
    expect(observed).not.toMatch(/Next/);
    expect(text(blocked(), { ...byHand, locale: 'zh-CN' })).toContain('下次提醒: 2026-03-01 11:00:00 (UTC)');
  });

  it.each([
    ['recovered', 'half-open-success', 'the trial went well', '试探成功'],
    ['recovered', 'half-open-timeout', 'the trial ended with too few calls', '试探期内调用过少'],
    ['relapsed', 'half-open-failure', 'a call of the trial failed', '试探调用失败'],
    ['relapsed', 'half-open-timeout', 'the trial ended with too few calls', '试探期内调用过少'],
  ] as const)('says how a trial ended: %s, %s', (kind, reason, english, chinese) => {
    const end = kind === 'recovered' ? recovered({ reason }) : blocked({ kind, reason, trips: 2, size: undefined });
    expect(text(end, en)).toContain(`Reason: ${english}\n`);
    expect(text(end, { locale: 'zh-CN', timeZone: 'UTC' })).toContain(`原因: ${chinese}\n`);
  });

  it('says who is suspected without a block', () => {
    const suspected = blocked({ kind: 'suspected', to: 'closed', until: 0, block: 0, blockedAt: 0, trips: 0 });
    expect(text(suspected, en)).toMatch(/^ALIPAY fails from too few sources: it stays in use\n/);
    expect(text(suspected, en)).toContain('Top sources: checkout@a ×3, checkout@b ×1\n');
    expect(text(suspected, en)).not.toMatch(/Relapse|Next try/);
    expect(text(suspected, { locale: 'zh-CN', timeZone: 'UTC' })).toMatch(/^ALIPAY 仅个别来源失败，未熔断\n/);
  });

  it('calls people for the beginning of a block alone', () => {
    const calls = (kind: Transition['kind']) => render(blocked({ kind }), en).mention;
    const kinds = TransitionKind.options.filter((kind) => isTold(kind) && kind !== 'floor');
    expect(kinds.filter(calls)).toEqual(['blocked', 'relapsed']);
  });
});

describe('text', () => {
  it('is cut at code points and never longer than its limit', () => {
    expect(cut('🔥🔥🔥', 5)).toBe('🔥🔥…');
    expect(cut('🔥🔥🔥', 4)).toBe('🔥…');
    expect(cut('abc', 3)).toBe('abc');
    expect(cut('abcd', 3)).toBe('ab…');
    expect(cut('微信支付', 7, (codePoint) => Buffer.byteLength(codePoint))).toBe('微…');
  });

  it('from outside stays on one line and reads in one direction', () => {
    expect(oneLine('a\r\nb\u2028c\u202Ed')).toBe('a b cd');
  });

  it('gives lengths of time in the units that matter', () => {
    const told = [350, 1_000, 45_000, 90_000, 1_800_000, 5_400_000, 90_000_000].map((ms) => duration(ms, WORDS.en));
    expect(told).toEqual(['350 ms', '1 s', '45 s', '1 min 30 s', '30 min', '1 h 30 min', '25 h']);
  });
});
