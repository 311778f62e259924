import type { ChannelRead } from '../channel/snapshot.js';
import { leastBad } from '../domain/floor.js';
import type { State } from '../domain/transition.js';
import { applyRead, isByHand, newView } from '../reader/view.js';
import type { LiveRules } from '../rules/port.js';

/** A member that is kept out. `until`: Redis ms, -1 without end. */
export type BlockedMember = {
  readonly channel: string;
  readonly state: State;
  readonly until: number;
  /** By a person: the floor does not overrule that. */
  readonly byHand: boolean;
};

export type GroupState = {
  readonly name: string;
  /** Its `minVisible`. */
  readonly floor: number;
  readonly members: readonly string[];
  readonly blocked: readonly BlockedMember[];
  /** Members in use. */
  readonly visible: number;
  /** Too few are in use because of blocks: readers show `shown` all the same, as far as there is anything to show. */
  readonly bites: boolean;
  readonly shown: readonly BlockedMember[];
};

/** Channels by group, each once, in the order given; those without a group are left out. */
export function membersOf(rules: Pick<LiveRules, 'policyFor'>, channels: Iterable<string>): Map<string, string[]> {
  const groups = new Map<string, string[]>();
  for (const channel of new Set(channels)) {
    const { group } = rules.policyFor(channel);
    if (group === undefined) continue;
    const members = groups.get(group);
    if (members) members.push(channel);
    else groups.set(group, [channel]);
  }
  return groups;
}

/**
 * How a group stands, by the rule that every reader applies to its own list. `reads`: of its members that may be blocked; the others
 * are taken for channels in use.
 */
export function groupState(
  name: string,
  members: readonly string[],
  reads: ReadonlyMap<string, ChannelRead>,
  rules: Pick<LiveRules, 'policyFor' | 'minVisible'>,
): GroupState {
  const candidates = members.map((channel) => {
    const view = newView(channel);
    const read = reads.get(channel);
    if (read) applyRead(view, read, 0);
    // As in a reader: mode `off` hides nothing, whatever lies in Redis.
    const blocked = view.blocked && rules.policyFor(channel).mode !== 'off';
    const { state, endsAt } = view;
    return { channel, group: name, blocked, state, endsAt, byHand: blocked && isByHand(view), until: view.until };
  });
  const blocked = candidates.filter((one) => one.blocked);
  const shown = leastBad(candidates, (group) => rules.minVisible(group)).map(
    (channel) => blocked.find((one) => one.channel === channel)!,
  );
  const pick = ({ channel, state, until, byHand }: BlockedMember) => ({ channel, state, until, byHand });
  const floor = rules.minVisible(name);
  const visible = members.length - blocked.length;
  return {
    ...{ name, floor, members, visible },
    blocked: blocked.map(pick),
    bites: blocked.length > 0 && visible < floor,
    shown: shown.map(pick),
  };
}
