import type { Difference } from '../replay/compare.js';
import type { Block, Incident } from '../replay/incidents.js';
import type { ReplayReport, RuleSetReport } from '../replay/report.js';
import { bold, localTime, plain, roughly, table } from './output.js';

const HEADER = [
  'CHANNEL',
  'MODE',
  'CALLS',
  'FAILED',
  'INCIDENTS',
  'BLOCKS',
  'BLOCKED FOR',
  'CALLS THEN',
  'FAILED THEN',
];
const CHANNELS_SHOWN = 30;
const INCIDENTS_SHOWN = 60;
const STRIP = 60;

/** A replay for people: what was read, what the rules would have done with it, and what came when. */
export function replayText(report: ReplayReport): string {
  const { ruleSets, differences } = report;
  return [
    ...readLines(report),
    ...ruleSets.flatMap((one) => ['', ...summary(one)]),
    ...(differences === undefined ? [] : ['', ...differenceLines(differences, ruleSets)]),
    ...ruleSets.flatMap((one) => ['', ...details(one, report)]),
  ].join('\n');
}

function readLines({ outcomes, from, to, read, mode }: ReplayReport): string[] {
  const range = from === null || to === null ? '' : `, ${localTime(from)} to ${localTime(to)} (${roughly(to - from)})`;
  const left = [
    read.bad > 0 ? `${whole(read.bad)} could not be read` : '',
    read.outOfRange > 0 ? `${whole(read.outOfRange)} outside the time asked for` : '',
  ].filter(Boolean);
  return [
    `${whole(outcomes)} outcomes${range}${left.length > 0 ? `; ${left.join(', ')}` : ''}`,
    mode === 'on'
      ? 'judged as if every channel had mode on, whatever the rules say of it (--mode as-written)'
      : 'judged by the modes that the rules give',
    'what was hidden already when this was recorded cannot be undone: traffic recorded without blocks shows all that they would have saved',
  ];
}

function summary(one: RuleSetReport): string[] {
  const { incidents, blocks, relapses, callsWhileBlocked: calls, failuresWhileBlocked: failures } = one;
  const told = Object.entries(one.dispositions).filter(([, n]) => n > 0);
  return [
    bold(plain(one.name)),
    incidents === 0
      ? '  nothing would have been blocked'
      : `  ${many(incidents, 'incident')} on ${many(one.channels.filter((row) => row.blocks > 0).length, 'channel')}, ${many(blocks, 'block')} (${many(relapses, 'relapse')}), ${roughly(one.blockedMs)} in all`,
    `  during blocks came ${many(calls, 'call')}: ${many(failures, 'failure')} that would not have reached users, ${many(calls - failures, 'success', 'successes')} that another channel would have had`,
    `  ${told.map(([name, n]) => `${NAMES[name] ?? name} ${whole(n)}`).join(', ')}`,
    ...(one.pauses.times > 0
      ? [`  ${many(one.pauses.times, 'pause')} that third parties asked for, ${roughly(one.pauses.ms)} in all`]
      : []),
    ...(one.suspicions > 0 ? [`  ${many(one.suspicions, 'time')} too few sources failed for a block`] : []),
    ...(one.blocksOmitted > 0 ? [`  ${many(one.blocksOmitted, 'block')} more than can be told one by one`] : []),
  ];
}

const NAMES: Readonly<Record<string, string>> = { overLimit: 'beyond maxChannels' };

function details(one: RuleSetReport, { from, to, ruleSets }: ReplayReport): string[] {
  const lines: string[] = ruleSets.length > 1 ? [bold(plain(one.name))] : [];
  const shown = one.channels.slice(0, CHANNELS_SHOWN);
  if (shown.length > 0) lines.push(table(HEADER, shown.map(channelRow)));
  if (one.channels.length > shown.length)
    lines.push(`and ${one.channels.length - shown.length} more (--json has them)`);
  if (one.forgotten.channels > 0)
    lines.push(
      `and ${whole(one.forgotten.channels)} with ${whole(one.forgotten.calls)} outcomes that left nothing behind`,
    );
  if (one.timeline.length === 0 || from === null || to === null) return lines;
  const channels = shown.filter(({ blocks }) => blocks > 0).map(({ channel }) => channel);
  const strips = channels.map((channel) => [channel, strip(one.timeline, channel, from, to)]);
  lines.push('', table(['CHANNEL', `${localTime(from)} to ${localTime(to)}, # blocked`], strips), '');
  for (const incident of one.timeline.slice(0, INCIDENTS_SHOWN)) lines.push(...incidentLines(incident));
  if (one.timeline.length > INCIDENTS_SHOWN)
    lines.push(`and ${one.timeline.length - INCIDENTS_SHOWN} incidents more (--json has them)`);
  return lines;
}

function channelRow(row: RuleSetReport['channels'][number]): string[] {
  const { channel, mode, calls, failures, incidents, blocks, blockedMs } = row;
  const rate = `${whole(failures)} (${calls === 0 ? 0 : Math.round((failures / calls) * 10_000) / 100} %)`;
  const blocked = blocks === 0 ? ['', '', '', '', ''] : undefined;
  return [
    ...[channel, mode, whole(calls), rate],
    ...(blocked ?? [
      ...[whole(incidents), whole(blocks), roughly(blockedMs)],
      ...[whole(row.callsWhileBlocked), whole(row.failuresWhileBlocked)],
    ]),
  ];
}

/** The whole time in so many characters, `#` where any of it is blocked. */
function strip(timeline: readonly Incident[], channel: string, from: number, to: number): string {
  const cells = Array.from({ length: STRIP }, () => '.');
  const cellOf = (ms: number) => Math.min(STRIP - 1, Math.floor(((ms - from) / Math.max(1, to - from)) * STRIP));
  for (const { blocks } of timeline.filter((one) => one.channel === channel))
    for (const block of blocks) cells.fill('#', cellOf(block.from), cellOf(Math.min(block.until, to)) + 1);
  return cells.join('');
}

function incidentLines({ channel, observed, blocks, heldAt }: Incident): string[] {
  return [
    ...blocks.map((block) => {
      const kind = observed ? 'observed' : block.trips > 1 ? `relapse ${block.trips - 1}` : 'blocked';
      return `${localTime(block.from)}  ${plain(channel)}  ${kind}: ${whyOf(block)}; ${endOf(block)}; ${many(block.calls, 'call')} meanwhile, ${whole(block.failures)} failed`;
    }),
    ...(heldAt === undefined ? [] : [`${localTime(heldAt)}  ${plain(channel)}  held`]),
  ];
}

function whyOf({ reason, decision, codes }: Block): string {
  const { size, recorded, succeeded, threshold } = decision;
  const counts =
    recorded === undefined || succeeded === undefined
      ? reason
      : `${recorded - succeeded} of ${recorded === size ? recorded : `${recorded} (window ${size})`} failed`;
  const limit = threshold === undefined || reason !== 'success-rate' ? '' : `, below ${threshold / 100} %`;
  const most = codes.map(([code, times]) => `${plain(code)} ${times}`).join(', ');
  const why = reason === 'success-rate' || counts === reason ? '' : ` (${reason})`;
  return `${counts}${limit}${why}${most === '' ? '' : `; ${most}`}`;
}

function endOf({ from, until, ended }: Block): string {
  return ended ? `for ${roughly(until - from)}` : `until ${localTime(until)}, after the end of what was read`;
}

const KINDS: Readonly<Record<Difference['kind'], string>> = {
  'only-first': 'only the first',
  'only-second': 'only the second',
  longer: 'the second longer',
  shorter: 'the second shorter',
  moved: 'at another time',
};

function differenceLines(differences: readonly Difference[], ruleSets: readonly RuleSetReport[]): string[] {
  const names = ruleSets.map(({ name }) => plain(name));
  if (differences.length === 0) return [`${names[0]} and ${names[1]} would have blocked the same, at the same times`];
  const rows = differences
    .slice(0, INCIDENTS_SHOWN)
    .map(({ channel, kind, first, second }) => [
      localTime((first ?? second)!.blocks[0]!.from),
      channel,
      KINDS[kind],
      shortOf(first),
      shortOf(second),
    ]);
  const more = differences.length - rows.length;
  return [
    `${many(differences.length, 'incident')} differ:`,
    table(['FROM', 'CHANNEL', 'BLOCKED BY', names[0]!, names[1]!], rows),
    ...(more > 0 ? [`and ${more} more (--json has them)`] : []),
  ];
}

function shortOf(incident: Incident | undefined): string {
  if (incident === undefined) return 'not blocked';
  const { blocks } = incident;
  const ms = blocks.reduce((sum, { from, until }) => sum + until - from, 0);
  const failures = blocks.reduce((sum, block) => sum + block.failures, 0);
  return `${localTime(blocks[0]!.from).slice(11)}, ${roughly(ms)}${blocks.length > 1 ? ` in ${blocks.length} blocks` : ''}, ${many(failures, 'failure')} saved`;
}

const whole = (n: number) => n.toLocaleString('en-US');
const many = (n: number, one: string, several = `${one}s`) => `${whole(n)} ${n === 1 ? one : several}`;
