import type { Command } from 'commander';
import { type AuditRecord, readAudit } from '../channel/audit.js';
import { readTime } from '../channel/snapshot.js';
import { Keys } from '../redis/keys.js';
import { channelArgument, durationArgument } from './arguments.js';
import { type AuditRow, withEnds } from './audit-rows.js';
import { localTime, print, printJson, table } from './output.js';
import { answered, withConnections } from './redis.js';
import { settingsOf } from './settings.js';

type Flags = { channel?: string; since?: string; json?: boolean };

/** `fuseline audit` */
export function addAudit(program: Command): void {
  program
    .command('audit')
    .summary('who changed what by hand, when and why')
    .description(
      'Lists what people and other programs changed: blocks, overrides, block keys, rules. Oldest first. What the rules decided by themselves is not in it. Reads only.',
    )
    .option('--channel <name>', 'of this channel alone, without changes of the rules')
    .option('--since <duration>', 'of the last 24h, 7d, …; default: all that is kept, about 10,000 changes of a year')
    .option('--json', 'for programs: one JSON array, times in ms of Redis')
    .action(async (flags: Flags, command: Command) => {
      const channel = flags.channel === undefined ? undefined : channelArgument(flags.channel);
      const sinceMs = flags.since === undefined ? Number.MAX_SAFE_INTEGER : durationArgument('--since', flags.since);
      const { redisUrl, prefix } = settingsOf(command);
      const { records, nowMs } = await withConnections(async ({ open }) => {
        const client = await open(redisUrl, 'commands');
        const { redisMs } = await answered(readTime(client), 'the time');
        const read = answered(readAudit(client, new Keys(prefix)), 'the audit trail');
        return { records: await read, nowMs: Math.floor(redisMs) };
      });
      const rows = withEnds(records, nowMs).filter(
        (row) => row.at >= nowMs - sinceMs && (channel === undefined || row.channel === channel),
      );
      if (flags.json) printJson(rows.map(({ id: _id, ...row }) => row));
      else if (rows.length === 0) print('nobody changed anything by hand');
      else print(table(['WHEN', 'WHO', 'WHAT', 'BEFORE', 'AFTER', 'WHY'], rows.map(cells)));
    });
}

const SHOWN = 3;

function cells(row: AuditRow): string[] {
  const { action, channel, actor, note, changes = [] } = row;
  const what = WHAT[action] ?? action;
  const who = actor ?? (action.startsWith('foreign-') ? 'another program' : '');
  const shown = changes.length > SHOWN ? [...changes.slice(0, SHOWN), '… (--json tells all)'] : changes;
  const why = [note === undefined ? '' : `"${note}"`, ...shown].filter(Boolean).join('; ');
  return [localTime(row.at), who, channel === undefined ? what : `${channel} ${what}`, before(row), after(row), why];
}

const WHAT: Readonly<Record<string, string>> = {
  block: 'blocked',
  extend: 'blocked for longer',
  shorten: 'blocked for less long',
  unblock: 'unblocked',
  'force-closed': 'kept in use, not judged',
  'load-set': 'load set',
  'load-clear': 'load left to the workers',
  'foreign-block': 'blocked: its key was set',
  'foreign-extend': 'blocked for longer: its key was moved',
  'foreign-shorten': 'blocked for less long: its key was moved',
  'foreign-unblock': 'unblocked: its key was deleted',
  'rules-set': 'rules set',
  'rules-rollback': 'rules rolled back',
  'block-ended': 'the time of the block was up',
  'force-ended': 'judged again: the time was up',
};

const STATES: Readonly<Record<string, string>> = { closed: 'in use', open: 'blocked', 'half-open': 'on trial' };

function before({ from = '', action }: AuditRecord): string {
  if (action.startsWith('rules-')) return from === '0' ? 'no rules' : `version ${from}`;
  return STATES[from] ?? from;
}

function after({ to = '', until, action }: AuditRecord): string {
  if (action.startsWith('rules-')) return `version ${to}`;
  const state = STATES[to] ?? to;
  if (until === undefined) return state;
  return until === -1 ? `${state}, no end` : `${state} until ${localTime(until)}`;
}
