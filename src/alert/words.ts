import type { ToldKind } from '../domain/transition.js';

export type Locale = 'en' | 'zh-CN';

/** `{name}` stands for a value. One table, so that no language can miss a text. */
export type Words = {
  readonly title: Readonly<Record<ToldKind, string>>;
  readonly state: Readonly<Record<'open' | 'closed' | 'half-open' | 'observed', string>>;
  /** Known reasons; an unknown one is shown as it is. */
  readonly reason: Readonly<Record<string, string>>;
  readonly label: Readonly<Record<Label, string>>;
  /** Of a group whose floor bites, with and without a channel to show. */
  readonly floor: {
    readonly none: string;
    readonly count: string;
    readonly until: string;
    readonly endless: string;
    readonly nothing: string;
  };
  readonly calls: string;
  readonly slow: string;
  readonly rate: string;
  readonly by: string;
  readonly window: string;
  readonly period: string;
  readonly at: string;
  readonly endless: string;
  readonly relapse: string;
  readonly incidentOver: string;
  readonly untold: string;
  /** Title and reason of a channel that is no longer degraded. */
  readonly normal: { readonly title: string; readonly reason: string };
  /** Title of a channel that was degraded before, and is now otherwise. */
  readonly otherwise: string;
  /** Title of a block that goes on because nobody has unblocked it. */
  readonly waiting: string;
  readonly separator: string;
  readonly unknown: string;
  readonly units: { readonly h: string; readonly min: string; readonly s: string; readonly ms: string };
};

type Label =
  | 'channel'
  | 'state'
  | 'reason'
  | 'note'
  | 'calls'
  | 'rate'
  | 'codes'
  | 'sources'
  | 'since'
  | 'until'
  | 'lasted'
  | 'next'
  | 'reminded'
  | 'incident'
  | 'relapse'
  | 'untold'
  | 'group'
  | 'inUse'
  | 'shown';

export const WORDS: Readonly<Record<Locale, Words>> = {
  en: {
    title: {
      blocked: '{channel} is blocked',
      relapsed: '{channel} is blocked again (relapse {relapse})',
      recovered: '{channel} is back in use',
      held: '{channel} has held: the incident is over',
      extended: 'The block of {channel} was extended',
      shortened: 'The block of {channel} was shortened',
      observed: '{channel} would have been blocked (observe mode)',
      suspected: '{channel} fails from too few sources: it stays in use',
      level: '{channel} is degraded: {level}',
      forced: '{channel} is kept in use by hand, whatever happens',
      'force-ended': '{channel} is judged again',
      floor: 'Group {group} runs out of channels: {shown} is shown although blocked',
    },
    state: {
      open: 'blocked',
      closed: 'in use',
      'half-open': 'on trial',
      observed: 'in use (only observed, nothing is hidden)',
    },
    reason: {
      'success-rate': 'too few successes',
      'slow-calls': 'too many slow calls',
      'too-many-failures': 'too many failures',
      'consecutive-failures': 'too many failures in a row',
      'sequential-test': 'the sequential test says failing',
      'rate-limited': 'the third party asked to wait',
      'rate-limit-over': 'the wait that the third party asked for is over',
      'half-open-success': 'the trial went well',
      'half-open-failure': 'a call of the trial failed',
      'half-open-timeout': 'the trial ended with too few calls',
      'awaits-release': 'it waits for somebody to unblock it',
      level: 'its success rate; a level is left 5 points above its line',
      expired: 'its time was up',
      deleted: 'the block key was deleted',
      evicted: 'the block key was evicted',
      manual: 'by hand',
      external: 'set by another program',
      'state lost': 'the state was lost, the block had run out',
      held: 'no new block during the watch',
    },
    label: {
      channel: 'Channel',
      state: 'State',
      reason: 'Reason',
      note: 'Note',
      calls: 'Last calls',
      rate: 'Success rate',
      codes: 'Top codes',
      sources: 'Top sources',
      since: 'Since',
      until: 'Until',
      lasted: 'Blocked',
      next: 'Next try',
      reminded: 'Next reminder',
      incident: 'Incident',
      relapse: 'Relapse',
      untold: 'Told late',
      group: 'Group',
      inUse: 'Channels in use',
      shown: 'Shown although blocked',
    },
    floor: {
      none: 'Group {group} runs out of channels: nothing is left to show',
      count: '{visible} of {members}, at least {floor} must be shown',
      until: '{channel} (blocked until {time})',
      endless: '{channel} (blocked without end)',
      nothing: 'none, because people blocked them',
    },
    calls: '{failed} failed, {succeeded} succeeded, {assumed} assumed to have succeeded, of {size}',
    slow: '{text}; {slow} were slow',
    rate: '{rate} %, threshold {threshold} %',
    by: '{reason}, {actor}',
    window: '{text} ×{count}',
    period: '{length}, {from} to {to}',
    at: '{time}, after {length}',
    endless: 'somebody unblocks it',
    relapse: 'number {relapse}',
    incidentOver: '{incident}, relapses: {relapses}',
    normal: {
      title: '{channel} is no longer degraded',
      reason: 'success rate clear of every level’s line, or nothing left to judge',
    },
    otherwise: '{channel} is now degraded as {level}, before as {before}',
    waiting: '{channel} is still blocked: somebody must unblock it',
    untold: 'the news that this block began had not reached you; this message tells both',
    separator: ', ',
    unknown: 'unknown',
    units: { h: ' h', min: ' min', s: ' s', ms: ' ms' },
  },
  'zh-CN': {
    title: {
      blocked: '{channel} 已熔断',
      relapsed: '{channel} 再次熔断（第 {relapse} 次复发）',
      recovered: '{channel} 已恢复使用',
      held: '{channel} 已稳定：事件结束',
      extended: '{channel} 的熔断已延长',
      shortened: '{channel} 的熔断已缩短',
      observed: '{channel} 本应熔断（观察模式）',
      suspected: '{channel} 仅个别来源失败，未熔断',
      level: '{channel} 已降级：{level}',
      forced: '{channel} 已人工强制启用，暂不熔断',
      'force-ended': '{channel} 已恢复自动判定',
      floor: '渠道组 {group} 可用渠道不足：{shown} 虽已熔断仍继续展示',
    },
    state: { open: '熔断中', closed: '使用中', 'half-open': '试探中', observed: '使用中（仅观察，未屏蔽）' },
    reason: {
      'success-rate': '成功率过低',
      'slow-calls': '慢调用过多',
      'too-many-failures': '失败次数过多',
      'consecutive-failures': '连续失败次数过多',
      'sequential-test': '序贯检验判定为故障',
      'rate-limited': '对方要求稍后再试（限流）',
      'rate-limit-over': '限流等待已结束',
      'half-open-success': '试探成功',
      'half-open-failure': '试探调用失败',
      'half-open-timeout': '试探期内调用过少',
      'awaits-release': '等待人工解除',
      level: '成功率决定级别；高出界线 5 个百分点才解除',
      expired: '已到期',
      deleted: '熔断键被删除',
      evicted: '熔断键被淘汰',
      manual: '人工操作',
      external: '由其他程序设置',
      'state lost': '状态丢失，熔断已到期',
      held: '观察期内未再熔断',
    },
    label: {
      channel: '渠道',
      state: '状态',
      reason: '原因',
      note: '备注',
      calls: '最近调用',
      rate: '成功率',
      codes: '主要错误码',
      sources: '主要来源',
      since: '开始时间',
      until: '截止时间',
      lasted: '熔断时长',
      next: '再次尝试',
      reminded: '下次提醒',
      incident: '事件',
      relapse: '复发',
      untold: '补充通知',
      group: '渠道组',
      inUse: '可用渠道',
      shown: '熔断中仍展示',
    },
    floor: {
      none: '渠道组 {group} 可用渠道不足：已无渠道可展示',
      count: '共 {members} 个，剩 {visible} 个，至少须展示 {floor} 个',
      until: '{channel}（熔断至 {time}）',
      endless: '{channel}（无限期熔断）',
      nothing: '无，其余均被人工熔断',
    },
    calls: '记录失败 {failed} 次、成功 {succeeded} 次，另有 {assumed} 次视为成功，共 {size} 次',
    slow: '{text}；其中慢调用 {slow} 次',
    rate: '{rate}%，阈值 {threshold}%',
    by: '{reason}，{actor}',
    window: '{text} ×{count}',
    period: '{length}，{from} 至 {to}',
    at: '{time}，{length}后',
    endless: '直到有人手动解除',
    relapse: '第 {relapse} 次',
    incidentOver: '{incident}，共复发 {relapses} 次',
    normal: { title: '{channel} 已不再降级', reason: '成功率已明显高于各级别的界线，或已无调用可供判断' },
    otherwise: '{channel} 降级为 {level}（此前为 {before}）',
    waiting: '{channel} 仍在熔断：需要人工解除',
    untold: '此前未能通知您熔断开始，本消息一并告知',
    separator: '、',
    unknown: '未知',
    units: { h: ' 小时', min: ' 分钟', s: ' 秒', ms: ' 毫秒' },
  },
};

/** Puts values into a text of the table. */
export function fill(text: string, values: Readonly<Record<string, string | number>>): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}
