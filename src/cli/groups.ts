import type { Command } from 'commander';
import { findBlocked, readAgenda, readChannels, readTime } from '../channel/snapshot.js';
import { lastMinute, liveWorkers } from '../intake/last-minute.js';
import { type BlockedMember, type GroupState, groupState, membersOf } from '../recovery/groups.js';
import type { RedisClient } from '../redis/client.js';
import { Keys } from '../redis/keys.js';
import { localTime, note, print, printJson, roughly, table } from './output.js';
import { answered, withConnections } from './redis.js';
import { rulesInForce } from './rules-in-force.js';
import { settingsOf } from './settings.js';

type Groups = { readonly nowMs: number; readonly refused?: string; readonly groups: readonly GroupState[] };

/** `fuseline groups` */
export function addGroups(program: Command): void {
  program
    .command('groups')
    .summary('which channels each group has left, and what its floor shows')
    .description(
      'Shows every group of the rules: its members, how many are in use, its floor (minVisible), and the blocked channels that are shown to keep it. Members that only a pattern names are those with traffic in the last minute, or with something else than health. Reads only.',
    )
    .option('--json', 'for programs: one JSON array, times in ms of Redis')
    .action(async ({ json }: { json?: boolean }, command: Command) => {
      const { redisUrl, logRedisUrl, prefix } = settingsOf(command);
      const { nowMs, refused, groups } = await withConnections(async ({ open }) => {
        const main = await open(redisUrl, 'commands');
        const log = logRedisUrl === redisUrl ? main : await open(logRedisUrl, 'commands');
        return answered(readGroups(main, log, new Keys(prefix)), 'the groups');
      });
      if (refused !== undefined) note(`fuseline: warning: the rules are refused (${refused}): they name no group`);
      if (json) printJson(groups);
      else if (groups.length === 0) print('the rules name no group');
      else
        print(
          table(
            HEADER,
            groups.map((group) => row(group, nowMs)),
          ),
        );
    });
}

async function readGroups(main: RedisClient, log: RedisClient, keys: Keys): Promise<Groups> {
  const [rules, agenda, busy, { redisMs }] = await Promise.all([
    rulesInForce(main, keys),
    readAgenda(main, keys),
    liveWorkers(log, keys).then((workers) => lastMinute(main, keys, workers)),
    readTime(main),
  ]);
  const members = membersOf(rules, [...rules.namedChannels(), ...agenda, ...busy.keys()]);
  const all = [...members.values()].flat();
  const onAgenda = new Set(agenda);
  // A key that another program set is not on the agenda before somebody has met it.
  const others = await findBlocked(
    main,
    keys,
    all.filter((channel) => !onAgenda.has(channel)),
  );
  const suspects = [...all.filter((channel) => onAgenda.has(channel)), ...others];
  const reads = new Map((await readChannels(main, keys, suspects)).map((read) => [read.channel, read]));
  const groups = rules.groups.map((name) => groupState(name, members.get(name) ?? [], reads, rules));
  return { nowMs: Math.floor(redisMs), groups, ...(rules.refused === undefined ? {} : { refused: rules.refused }) };
}

const HEADER = ['GROUP', 'IN USE', 'FLOOR', 'MEMBERS', 'NOTES'];

function row({ name, floor, members, visible, bites, shown, blocked }: GroupState, nowMs: number): string[] {
  const out = new Set(blocked.map(({ channel }) => channel));
  const each = members.map((channel) => (out.has(channel) ? `${channel} (blocked)` : channel)).join(', ');
  return [name, `${visible} of ${members.length}`, floor === 0 ? 'none' : String(floor), each, notes()];

  function notes(): string {
    if (!bites) return '';
    if (shown.length === 0) return 'TOO FEW LEFT, and nothing to show: people blocked the others';
    return `TOO FEW LEFT, shown although blocked: ${shown.map((one) => until(one, nowMs)).join(', ')}`;
  }
}

function until({ channel, until }: BlockedMember, nowMs: number): string {
  return until === -1 ? `${channel} without end` : `${channel} until ${localTime(until)} (${roughly(until - nowMs)})`;
}
