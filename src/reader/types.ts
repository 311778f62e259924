import type { State } from '../domain/transition.js';
import type { Trial } from '../domain/trial.js';

/** What a reader believes about one channel. Times are Redis ms. */
export type ChannelState<Channel extends string = string> = {
  readonly channel: Channel;
  /** `closed` also for a channel that nothing is known about. */
  readonly state: State;
  /** As `isBlocked` tells it: false in mode `off`, whatever the state. */
  readonly blocked: boolean;
  /** Names the last transition known; 0: none. */
  readonly epoch: number;
  readonly since: number;
  /** End of the block, or deadline of half-open; -1: a block without end, 0: not blocked. */
  readonly until: number;
  readonly reason: string;
  readonly incident: string;
  readonly trips: number;
  readonly actor?: string;
  readonly note?: string;
  /** While it is half-open: whom it lets through. Absent then too where nobody knows, and nobody is let through. */
  readonly trial?: Trial;
};

/** Told when entries of the feed were lost to this reader; a snapshot has taken their place already. */
export type GapEvent = { readonly reason: string };

export type ReaderStatus = {
  /** The last read of Redis was answered. False: answers come from memory, or are open if there never was one. */
  readonly connected: boolean;
  /** The feed is being followed. */
  readonly following: boolean;
  /** There has been a snapshot. Until then nothing is blocked. */
  readonly ready: boolean;
  /** How old the last snapshot is; `Infinity` without one. In good times at most about 2.5 s. */
  readonly ageMs: number;
  /** Channels known by a state of theirs. */
  readonly size: number;
  readonly blocked: number;
  /** Channels asked about here and remembered. */
  readonly asked: number;
  readonly counters: Readonly<ReaderCounters>;
};

/** Monotonic counts, for metrics. */
export type ReaderCounters = {
  snapshots: number;
  /** Reads of Redis that failed or came too late. */
  failures: number;
  /** Answers given before there was a snapshot: open, whatever the truth. */
  answeredOpen: number;
  /** Names asked about that no channel can have. */
  invalidNames: number;
  /** Channels shown by the floor although blocked, counted per call. */
  floored: number;
  transitions: number;
  /** Entries of the feed that were no news: announced twice, or overtaken. Normal. */
  staleTransitions: number;
  /** Entries of the feed of a kind, or a shape, unknown to this version. */
  unknownEntries: number;
  gaps: number;
  /** Reads that found a key of the wrong type or a damaged state. */
  channelFaults: number;
  listenerErrors: number;
};

/** What a reader says about itself: pino fits. Without one, warnings go to `process.emitWarning`. */
export type ReaderLogger = {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
};

export const processWarnings: ReaderLogger = {
  info: () => {},
  warn: (_fields, message) => process.emitWarning(message, 'FuselineWarning'),
};
