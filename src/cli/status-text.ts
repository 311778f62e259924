import { localTime, roughly, table } from './output.js';
import type { ChannelStatus, Status } from './status-read.js';

const HEADER = ['CHANNEL', 'STATE', 'LEFT', 'SINCE', 'REASON', 'WINDOW', 'LAST MINUTE', 'NOTES'];

/** The status for people: what concerns all first, then a table, what is blocked on top. */
export function statusText(status: Status, address: string): string {
  const blocked = status.channels.filter((one) => one.blocked).length;
  const { lag, shards } = status.log;
  const lines = [
    `Redis ${address}, ${localTime(status.nowMs)}`,
    rulesLine(status.rules),
    `outcome workers ${status.workers.outcomes}${status.workers.outcomes === 0 ? ' (nobody judges)' : ''}, shards ${shards}, waiting entries ${lag ?? 'unknown'}`,
    `blocked ${blocked}, not plainly closed ${status.notClosed}`,
  ];
  if (status.channels.length === 0) return [...lines, '', 'no channel is busy, none is blocked'].join('\n');
  const rows = status.channels.map((one) => row(one, status.nowMs));
  return [...lines, '', table(HEADER, rows)].join('\n');
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
    one.reason,
    window.recorded === 0 ? '' : `${window.succeeded} of ${window.recorded} ok (${window.size} slots)`,
    successes + failures === 0 ? '' : `${successes} ok, ${failures} failed`,
    notes(one, nowMs),
  ];
}

function stateOf({ state, blocked, mode, watchedUntil }: ChannelStatus): string {
  const shown = mode === 'on' ? '' : ` (${mode})`;
  if (blocked) return `${state === 'half-open' ? 'half-open' : 'BLOCKED'}${shown}`;
  return `${watchedUntil > 0 ? 'watched' : state}${shown}`;
}

function notes(one: ChannelStatus, nowMs: number): string {
  const left = (untilMs: number) => roughly(untilMs - nowMs);
  return [
    one.relapse > 0 ? `relapse ${one.relapse}` : '',
    one.incident === '' ? '' : `incident ${one.incident}`,
    one.watchedUntil > 0 ? `watched for ${left(one.watchedUntil)}` : '',
    one.notJudgedUntil > 0 ? `by hand, not judged for ${left(one.notJudgedUntil)}` : '',
    one.wouldBeBlockedUntil > 0 ? `would be blocked for ${left(one.wouldBeBlockedUntil)}` : '',
    one.actor === undefined ? '' : `by ${one.actor}`,
    one.note === undefined ? '' : `"${one.note}"`,
    one.fault === undefined ? '' : `FAULT ${one.fault}`,
  ]
    .filter(Boolean)
    .join(', ');
}
