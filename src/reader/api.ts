import type { Transition } from '../domain/transition.js';
import type { RedisClient } from '../redis/client.js';
import type { LiveRules } from '../rules/port.js';
import type { Selection, SelectOptions } from './select.js';
import type { ChannelState, GapEvent, ReaderLogger, ReaderStatus } from './types.js';

export type ReaderOptions = {
  /** As `openRedis` takes it. Either this or `client`. */
  readonly url?: string;
  /** The caller's own client: used for commands, duplicated for the feed, never closed. */
  readonly client?: RedisClient;
  readonly prefix?: string;
  /** For mode `off` and for the floor of groups. Without them every block hides and there is no floor. Closed by the caller. */
  readonly rules?: LiveRules;
  /** Channels to look at from the start, as if they had been asked about. */
  readonly channels?: readonly string[];
  readonly logger?: ReaderLogger;
  /** After how long `ready` gives up and the reader starts open; default 1,000. */
  readonly readyWithinMs?: number;
  /** Between two snapshots, give or take a fifth; default 2,000. */
  readonly resyncMs?: number;
  /** Most channels asked about that are remembered (default 10,000); past it the least recently asked one is forgotten. */
  readonly askedMost?: number;
};

export type Reader<Channel extends string = string> = {
  /**
   * Whether to keep the channel out. From memory, at once; never throws: what is no name of a channel is not blocked, and counted.
   * Tells the state: a channel that the floor shows, or that is half-open, is still blocked.
   */
  isBlocked(channel: Channel): boolean;
  /**
   * Whether a blocked channel is let through all the same, because its group would show fewer than its `minVisible` otherwise: among
   * these channels, for the user of this key, or (default) among those of its group that the rules name or that were asked about here.
   */
  isFloored(channel: Channel, among?: readonly Channel[], key?: string): boolean;
  /** The items that may be offered: the caller's own elements in the caller's order. */
  visible<T>(items: readonly T[], options?: SelectOptions<T>): T[];
  /** As `visible`, and says which channels only the floor shows, and how old the knowledge is. */
  select<T>(items: readonly T[], options?: SelectOptions<T>): Selection<T>;
  stateOf(channel: Channel): ChannelState<Channel>;
  /**
   * How far the channel is degraded: `blocked` exactly while {@link Reader.isBlocked} says so, otherwise the level of its policy that it is
   * at, or `normal`. From memory, at once; never throws.
   */
  levelOf(channel: Channel): string;
  /** Each transition once, in the order of its channel's epochs. Returns the way to stop listening. */
  on(event: 'transition', listener: (transition: Transition) => void): () => void;
  /** Entries of the feed were lost to this reader; a snapshot has healed it, and told what it found. */
  on(event: 'gap', listener: (gap: GapEvent) => void): () => void;
  /** True at the first snapshot; false after `readyWithinMs` without one: the reader starts open and heals alone. Never rejects. */
  readonly ready: Promise<boolean>;
  status(): ReaderStatus;
  /** Closes what was opened here. Afterwards answers stay as they were last. */
  close(): Promise<void>;
};
