import type { LiveRules } from '../rules/port.js';
import { type Lookup, selectVisible } from './select.js';

export type FloorDeps = {
  readonly find: Lookup['find'];
  readonly rules: Pick<LiveRules, 'version' | 'policyFor' | 'minVisible' | 'namedChannels'> | undefined;
  /** Channels asked about in this process; `changes` moves on when one is new. */
  readonly asked: { readonly changes: number; channels(): Iterable<string> };
};

export type FloorShows = (name: unknown, among?: readonly unknown[], key?: string) => boolean;

/**
 * Tells of a single channel whether the floor shows it though it is blocked, as `visible` would among `among` to the user of that key, or
 * among the members of its group. Those are the channels that the rules name, and those asked about here that a pattern puts into the group.
 */
export function createFloor({ find, rules, asked }: FloorDeps): FloorShows {
  const members = new Map<string, string[]>();
  let version = -1;
  let changes = -1;

  function membersOf(group: string): readonly string[] {
    // Every call to a blocked channel comes through here, so the lists are made once per document and name.
    if (rules!.version() !== version || asked.changes !== changes) {
      version = rules!.version();
      changes = asked.changes;
      members.clear();
    }
    let found = members.get(group);
    if (found === undefined) {
      const named = new Set(rules!.namedChannels());
      const others = [...asked.channels()].filter((channel) => !named.has(channel)).sort();
      found = [...named, ...others].filter((channel) => rules!.policyFor(channel).group === group);
      members.set(group, found);
    }
    return found;
  }

  return (name, among, key) => {
    const channel = rules && find(name)?.channel;
    if (channel === undefined) return false;
    const { group } = rules!.policyFor(channel);
    if (group === undefined || rules!.minVisible(group) === 0) return false;
    const { floored } = selectVisible(Array.isArray(among) ? among : membersOf(group), { key }, { find, rules });
    return floored.includes(channel);
  };
}
