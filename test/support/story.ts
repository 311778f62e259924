import { Transition } from '../../src/domain/transition.js';
import type { RedisClient } from '../../src/redis/client.js';
import type { Keys } from '../../src/redis/keys.js';

/** Every transition in the feed, by channel, each epoch once, ordered by epoch. One announced twice must read the same both times. */
export async function readFeedStories(
  client: RedisClient,
  keys: Keys,
): Promise<{ stories: Map<string, Transition[]>; repeated: number; problems: string[] }> {
  const seen = new Map<string, string>();
  const stories = new Map<string, Transition[]>();
  const problems: string[] = [];
  let repeated = 0;
  for (const [id, fields] of await client.xrange(keys.feed, '-', '+')) {
    const text = fields[fields.indexOf('transition') + 1]!;
    const transition = Transition.parse(JSON.parse(text));
    const { channel, epoch } = transition;
    const name = `${channel} ${epoch}`;
    const before = seen.get(name);
    if (before !== undefined) {
      repeated += 1;
      if (before !== text) problems.push(`${name} is told in two ways in the feed, again at ${id}`);
      continue;
    }
    seen.set(name, text);
    const story = stories.get(channel) ?? [];
    stories.set(channel, story);
    story.push(transition);
  }
  for (const story of stories.values()) story.sort((a, b) => a.epoch - b.epoch);
  return { stories, repeated, problems };
}

/** Where a channel's transitions do not follow from one another: strictly blocked, recovered, then held or relapsed, and so on. */
export function storyProblems(story: readonly Transition[]): string[] {
  const problems: string[] = [];
  let block: Transition | undefined;
  let watched: Transition | undefined;
  let trips = 0;
  let tried = false;
  for (const one of story) {
    const say = (what: string) => problems.push(`${one.kind} ${one.epoch} of ${one.channel}: ${what}`);
    switch (one.kind) {
      case 'blocked':
      case 'relapsed':
        if (block && !tried) say(`begins while block ${block.epoch} lasts`);
        if (tried && block && one.from === 'half-open') watched = block;
        if ((one.kind === 'relapsed') !== (watched !== undefined)) say(watched ? 'was watched' : 'was not watched');
        if (watched && one.incident !== watched.incident) say('is of another incident');
        if (watched && one.at < watched.at) say('began before the last block ended');
        trips = one.kind === 'relapsed' ? trips + 1 : 1;
        if (one.trips !== trips) say(`says ${one.trips} trips, want ${trips}`);
        if (one.block !== one.epoch) say(`names block ${one.block}`);
        [block, watched, tried] = [one, undefined, false];
        break;
      case 'extended':
      case 'shortened':
        if (!block) say('nothing is blocked');
        break;
      case 'half-open':
        if (!block) say('nothing was blocked');
        if (block && one.block !== block.epoch) say(`tries ${one.block}, but ${block.epoch} was blocked`);
        if (one.from === 'open' && one.step !== 0) say(`begins at step ${one.step}`);
        tried = true;
        break;
      case 'recovered':
        // A failover that took a block away may have taken its line of the feed too.
        if (!block && one.reason !== 'state lost') say('nothing was blocked');
        if (block && one.block !== block.epoch) say(`ends ${one.block}, but ${block.epoch} was blocked`);
        if (block && one.at < block.at) say('ends before it began');
        [block, watched, tried] = [undefined, one, false];
        break;
      case 'held':
        if (block || !watched) say('nothing was watched');
        watched = undefined;
        break;
      default:
        say('is not expected here');
    }
  }
  return problems;
}
