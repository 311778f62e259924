import { WORDS } from '../alert/words.js';
import { PAUSED } from '../domain/lane.js';
import { PAST_LEAST } from '../domain/policy.js';
import { loadLine } from './load-words.js';
import { localTime, roughly, table } from './output.js';
import type { ChannelStatus, TrialStatus } from './status-channel.js';
import type { Status } from './status-read.js';
import { windowText } from './status-window.js';

const HEADER = ['CHANNEL', 'STATE', 'LEFT', 'SINCE', 'REASON', 'WINDOW', 'LAST MINUTE', 'NOTES'];

/** The status for people: what concerns all first, then a table, what is blocked on top. */
export function statusText(status: Status, address: string, prefix = ''): string {
  const { lag, shards } = status.log;
  const lines = [
    `Redis ${address}${prefix === '' ? '' : `, prefix ${prefix}`}, ${localTime(status.nowMs)}`,
    rulesLine(status.rules),
    `outcome workers ${status.workers.outcomes}${status.workers.outcomes === 0 ? ' (nobody judges)' : ''}, shards ${shards}, waiting entries ${lag ?? 'unknown'}`,
    ...(status.load === undefined ? [] : [loadLine(status.load, status.nowMs)]),
    summary(status.channels),
  ];
  if (status.channels.length === 0) return [...lines, '', 'no channel is busy, none is blocked'].join('\n');
  const rows = status.channels.map((one) => row(one, status.nowMs));
  return [...lines, '', table(HEADER, rows)].join('\n');
}

/** How many are in what people must know of. */
function summary(channels: readonly ChannelStatus[]): string {
  const count = (is: (one: ChannelStatus) => boolean) => channels.filter(is).length;
  const isOpen = (one: ChannelStatus) => one.blocked && one.state !== 'half-open' && !isPaused(one);
  const parts = [
    [count((one) => one.awaitsRelease), 'until somebody unblocks'],
    [count((one) => one.blocked && one.state === 'half-open'), 'on trial'],
    [count(isPaused), 'hidden because the third party asked to wait'],
    [count((one) => one.level !== ''), 'degraded'],
    [count((one) => one.watchedUntil > 0), 'watched after a block'],
    [count((one) => one.override?.kind === 'in use'), 'kept in use by hand'],
    [count((one) => one.wouldBeBlockedUntil > 0), 'only observed, else blocked'],
    [count((one) => one.fault !== undefined), 'with a fault'],
  ] as const;
  const others = parts.filter(([n]) => n > 0).map(([n, what]) => `${n} ${what}`);
  return [`${count(isOpen) || 'none'} blocked`, ...others].join(', ');
}

function rulesLine({ version, refused, empty }: Status['rules']): string {
  if (refused !== undefined) return `rules REFUSED, the workers live by the last good ones: ${refused}`;
  if (empty) return 'no rules: every channel is only observed, and blocked by hand alone';
  return `rules version ${version}`;
}

function row(one: ChannelStatus, nowMs: number): string[] {
  const { window, lastMinute } = one;
  const { successes, failures } = lastMinute;
  return [
    one.channel,
    stateOf(one),
    one.blocked ? (one.leftMs === null ? 'no end' : roughly(one.leftMs)) : '',
    one.since > 0 ? roughly(nowMs - one.since) : '',
    WORDS.en.reason[one.reason] ?? one.reason,
    windowText(window),
    successes + failures === 0 ? '' : `${successes} ok, ${failures} failed`,
    notes(one, nowMs),
  ];
}

/** Hidden for as long as the third party itself asked: no block, and no incident. */
function isPaused({ blocked, state, reason }: ChannelStatus): boolean {
  return blocked && state === 'open' && reason === PAUSED;
}

function stateOf(one: ChannelStatus): string {
  const { state, blocked, mode, watchedUntil, override, level } = one;
  const shown = mode === 'on' ? '' : ` (${mode})`;
  if (blocked) return `${state === 'half-open' ? 'ON TRIAL' : isPaused(one) ? 'HIDDEN' : 'BLOCKED'}${shown}`;
  if (override !== undefined) return `IN USE by hand${shown}`;
  if (level !== '') return `DEGRADED ${level}${shown}`;
  return `${watchedUntil > 0 ? 'watched' : 'in use'}${shown}`;
}

function trialWords({ step, steps, percent, permits, good, needed }: TrialStatus): string {
  const through = percent === undefined ? `${permits} at once` : `${percent} % of users`;
  return `${steps > 1 ? `step ${step} of ${steps}: ` : ''}${through}, ${good} of ${needed} good calls`;
}

function notes(one: ChannelStatus, nowMs: number): string {
  const left = (untilMs: number) => roughly(untilMs - nowMs);
  const { actor = one.actor, note = one.note } = one.override ?? {};
  return [
    one.trial === undefined ? '' : trialWords(one.trial),
    one.awaitsRelease ? 'goes on until somebody unblocks it' : '',
    one.relapse > 0 ? `relapse ${one.relapse}` : '',
    one.incident === '' ? '' : `incident ${one.incident}`,
    one.watchedUntil > 0 ? `watched for ${left(one.watchedUntil)}` : '',
    one.notJudgedUntil > 0 ? `not judged for ${left(one.notJudgedUntil)}` : '',
    one.wouldBeBlockedUntil > 0 ? `would be blocked for ${left(one.wouldBeBlockedUntil)}` : '',
    one.learned === undefined ? '' : learnedWords(one.learned),
    one.override === undefined ? '' : overrideEnd(one.override.until),
    actor === undefined ? '' : `by ${actor}`,
    note === undefined ? '' : `"${note}"`,
    one.fault === undefined ? '' : `FAULT ${one.fault}`,
  ]
    .filter(Boolean)
    .join(', ');
}

function learnedWords({ outages, blockMs }: NonNullable<ChannelStatus['learned']>): string {
  const from =
    outages < PAST_LEAST ? `${outages} of the ${PAST_LEAST} outages to learn from` : `from ${outages} outages`;
  return `next first block ${roughly(blockMs)} (${from})`;
}

function overrideEnd(until: number): string {
  return until === -1 ? 'by hand without end' : `by hand until ${localTime(until)}`;
}
