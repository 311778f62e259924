import { z } from 'zod';
import { type ChannelRead, readAgenda, readChannels, readTime } from '../channel/snapshot.js';
import { GroupFloor, groupSubject, type Transition } from '../domain/transition.js';
import type { Log } from '../observe/log.js';
import type { Queues } from '../queue/queues.js';
import type { RedisClient } from '../redis/client.js';
import { withDeadline } from '../redis/deadline.js';
import type { Keys } from '../redis/keys.js';
import type { LiveRules } from '../rules/port.js';
import { type GroupState, groupState, membersOf } from './groups.js';
import { SeenMembers } from './seen-members.js';

/** A floor that bites again within so long goes on with what people were told: a channel that relapses is no news of its group. */
const QUIET_MS = 60_000;
const DEADLINE_MS = 2_000;
const SHOWN_MOST = 20;

export type FloorWatchOptions = {
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly rules: Pick<LiveRules, 'policyFor' | 'minVisible' | 'namedChannels' | 'patternGroups'>;
  readonly queues: Pick<Queues, 'addNotify'>;
  readonly log: Log;
  /** Channels that had traffic in the last minute. */
  readonly seen?: () => Promise<Iterable<string>>;
  /** For how long there must have been traffic before the members of a group of patterns are taken for known; default 10 min. */
  readonly learnMs?: number;
  readonly quietMs?: number;
};

export type FloorWatch = {
  /**
   * Looks at every group with a floor and tells people, once for each episode, where it bites. Any number of processes may look.
   *
   * @throws what Redis answers; looking again is the cure
   */
  look(): Promise<void>;
};

/** As stored: what was told, word for word, so that every process tells the same. */
const Episode = GroupFloor.extend({
  /** Redis ms; names the episode. */
  since: z.number().int(),
  /** Handed to the alerts. */
  told: z.boolean(),
  /** Since when it bites no more; 0: it does. */
  quietAt: z.number().int(),
});
type Episode = z.infer<typeof Episode>;

export function createFloorWatch(options: FloorWatchOptions): FloorWatch {
  const { client, keys, rules, queues, log, quietMs = QUIET_MS } = options;
  // The log may be on another server, and away: that says nothing of groups whose members are named.
  const onError = (err: unknown) => log.warn({ err }, 'which channels have traffic cannot be read');
  const seen = new SeenMembers(options.seen, onError, options.learnMs);

  /** Groups of whose healthy members too few may be known yet: nothing is said of them. */
  const isUnsure = (group: string) => !seen.isComplete && rules.patternGroups().has(group);

  /** Only what is on the agenda can be blocked, so that a fleet in good health costs no more than looking at that. */
  async function biting(agenda: readonly string[]): Promise<GroupState[]> {
    const mayBeBlocked = new Set(agenda);
    const tooFew = ([name, members]: [string, string[]]) => {
      const suspects = members.filter((channel) => mayBeBlocked.has(channel)).length;
      return suspects > 0 && members.length - suspects < rules.minVisible(name);
    };
    const known = [...rules.namedChannels(), ...agenda];
    // Asked for in good health too, or there would be nothing to remember when it ends.
    const hasPatterns = [...rules.patternGroups()].some((group) => rules.minVisible(group) > 0);
    const traffic = hasPatterns ? await seen.channels() : [];
    if (![...membersOf(rules, known)].some(tooFew)) return [];
    const groups = [...membersOf(rules, [...known, ...traffic])].filter(tooFew).filter(([name]) => !isUnsure(name));
    if (groups.length === 0) return [];
    const suspects = groups.flatMap(([, members]) => members).filter((channel) => mayBeBlocked.has(channel));
    const reads = new Map<string, ChannelRead>();
    for (const read of await readChannels(client, keys, suspects)) reads.set(read.channel, read);
    return groups.map(([name, members]) => groupState(name, members, reads, rules)).filter(({ bites }) => bites);
  }

  const store = (episode: Episode) => client.hset(keys.floors, episode.name, JSON.stringify({ v: 1, ...episode }));

  async function begin(state: GroupState, nowMs: number): Promise<Episode | undefined> {
    const { name, floor, members, visible } = state;
    const shown = state.shown.slice(0, SHOWN_MOST).map(({ channel, until }) => ({ channel, until }));
    const episode = { name, floor, members: members.length, visible, shown, since: nowMs, told: false, quietAt: 0 };
    const isMine = (await client.hsetnx(keys.floors, name, JSON.stringify({ v: 1, ...episode }))) === 1;
    if (isMine)
      log.warn({ group: name, floor, visible, shown }, 'the floor of a group bites: blocked channels are shown');
    return isMine ? episode : parse(await client.hget(keys.floors, name));
  }

  async function go(state: GroupState, stored: Episode | undefined, nowMs: number): Promise<void> {
    const episode = stored ?? (await begin(state, nowMs));
    if (episode === undefined || (episode.told && episode.quietAt === 0)) return;
    // The same job, whoever adds it; whoever dies before it is noted leaves it to the next.
    if (!episode.told) await queues.addNotify(news(episode));
    await store({ ...episode, told: true, quietAt: 0 });
  }

  async function rest(name: string, episode: Episode | undefined, nowMs: number): Promise<void> {
    if (episode !== undefined && episode.quietAt === 0) {
      await store({ ...episode, quietAt: nowMs });
    } else if (episode === undefined || nowMs - episode.quietAt >= quietMs) {
      await client.hdel(keys.floors, name);
      log.info({ group: name }, 'the floor of a group bites no more');
    }
  }

  async function look(): Promise<void> {
    const [agenda, stored] = await Promise.all([readAgenda(client, keys), client.hgetall(keys.floors)]);
    const states = await biting(agenda);
    const names = Object.keys(stored);
    if (states.length === 0 && names.length === 0) return;
    const nowMs = Math.floor((await readTime(client)).redisMs);
    for (const state of states) await go(state, parse(stored[state.name]), nowMs);
    const still = new Set(states.map(({ name }) => name));
    for (const name of names) if (!still.has(name) && !isUnsure(name)) await rest(name, parse(stored[name]), nowMs);
  }

  return { look: () => withDeadline(look(), DEADLINE_MS, 'the floors of groups') };
}

function news(episode: Episode): Transition {
  const { name, floor, members, visible, shown, since } = episode;
  return {
    v: 1,
    kind: 'floor',
    channel: groupSubject(name),
    ...{ epoch: since, at: since, from: 'closed', to: 'closed', until: 0, reason: 'floor', incident: String(since) },
    ...{ trips: 1, block: 0, blockedAt: 0, evidence: [] },
    group: { name, floor, members, visible, shown },
  };
}

function parse(text: string | null | undefined): Episode | undefined {
  try {
    const parsed = Episode.safeParse(JSON.parse(text ?? ''));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}
