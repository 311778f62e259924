import type { FeedEntry } from '../channel/feed.js';
import { canonicalChannel } from '../domain/channel-name.js';
import type { Transition } from '../domain/transition.js';
import type { RedisClient } from '../redis/client.js';
import { Keys } from '../redis/keys.js';
import type { LiveRules } from '../rules/port.js';
import { Asked } from './asked.js';
import { Bell } from './bell.js';
import { RedisClock } from './clock.js';
import { openConnections } from './connections.js';
import { createFloor } from './floor.js';
import { FeedPosition, followFeed } from './follow.js';
import { Listeners } from './listeners.js';
import { keepFresh } from './loop.js';
import { type Selection, type SelectOptions, selectVisible } from './select.js';
import {
  type ChannelState,
  type GapEvent,
  processWarnings,
  type ReaderCounters,
  type ReaderLogger,
  type ReaderStatus,
} from './types.js';
import { describeView, type View } from './view.js';
import { Views } from './views.js';

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
  /** After how long `ready` gives up and the reader starts open. */
  readonly readyWithinMs?: number;
  /** Between two snapshots, give or take a fifth. */
  readonly resyncMs?: number;
  /** Most channels asked about that are remembered; past it the least recently asked one is forgotten. */
  readonly askedMost?: number;
};

export type Reader<Channel extends string = string> = {
  /**
   * Whether to keep the channel out. From memory, at once; never throws: what is no name of a channel is not blocked, and counted.
   * Tells the state: a channel that the floor shows is still blocked.
   */
  isBlocked(channel: Channel): boolean;
  /**
   * Whether a blocked channel is let through all the same, because its group would show fewer than its `minVisible` otherwise: among
   * these channels, or (default) among those of its group that the rules name or that were asked about here.
   */
  isFloored(channel: Channel, among?: readonly Channel[]): boolean;
  /** The items that may be offered: the caller's own elements in the caller's order. */
  visible<T>(items: readonly T[], options?: SelectOptions<T>): T[];
  /** As `visible`, and says which channels only the floor shows, and how old the knowledge is. */
  select<T>(items: readonly T[], options?: SelectOptions<T>): Selection<T>;
  stateOf(channel: Channel): ChannelState<Channel>;
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

/**
 * Opens a reader: it keeps the state of all channels in memory, by a snapshot, the feed, and a new snapshot every 2 s. Its connections
 * keep the process alive until `close()`.
 *
 * @throws {RedisUrlError} the URL; {ChannelNameError} one of `channels`; {Error} neither `url` nor `client`, or braces in the prefix.
 * Never because Redis is away
 */
export function createReader<Channel extends string = string>(options: ReaderOptions): Reader<Channel> {
  const { rules, logger = processWarnings, readyWithinMs = 1_000, resyncMs = 2_000, askedMost = 10_000 } = options;
  const keys = new Keys(options.prefix);
  const connections = openConnections(options);
  const stop = new AbortController();
  const counters: ReaderCounters = {
    ...{ snapshots: 0, failures: 0, answeredOpen: 0, invalidNames: 0, floored: 0, transitions: 0 },
    ...{ staleTransitions: 0, unknownEntries: 0, gaps: 0, channelFaults: 0, listenerErrors: 0 },
  };
  const onThrow = (error: unknown) => {
    counters.listenerErrors++;
    logger.warn({ err: error }, `a listener of the reader threw: ${String(error)}`);
  };
  const transitions = new Listeners<Transition>(onThrow);
  const gaps = new Listeners<GapEvent>(onThrow);
  const clock = new RedisClock();
  const views = new Views(clock, (transition) => {
    counters.transitions++;
    transitions.tell(transition);
  });
  const asked = new Asked(askedMost);
  const position = new FeedPosition();
  const bell = new Bell();
  const checks = new Set<string>();
  const faulty = new Set<string>();
  let asOf = Number.NEGATIVE_INFINITY;
  let connected = true;
  let following = false;
  let hurried = false;
  let follower: Promise<void> | undefined;
  let setReady: (ready: boolean) => void = () => {};
  const ready = new Promise<boolean>((resolve) => {
    setReady = resolve;
  });
  const readyTimer = setTimeout(() => setReady(false), readyWithinMs);

  function onEntries(entries: readonly FeedEntry[]): void {
    for (const { transition } of entries) {
      if (transition === undefined) counters.unknownEntries++;
      else if (views.take(transition)) checks.add(transition.channel);
      else counters.staleTransitions++;
    }
    if (checks.size > 0) bell.ring();
  }

  function onFresh(readAt: number): void {
    if (!connected) logger.info({ ageMs: Math.round(performance.now() - asOf) }, 'Redis answers the reader again');
    connected = true;
    asOf = readAt;
    counters.snapshots++;
    clearTimeout(readyTimer);
    setReady(true);
    const onAlive = (alive: boolean) => {
      following = alive;
    };
    follower ??= followFeed({ client: connections.feed, keys, position, onEntries, onAlive }, stop.signal);
  }

  function onAway(error: unknown): void {
    counters.failures++;
    if (!connected) return;
    connected = false;
    const memory = asOf > 0 ? 'the reader answers from memory' : 'the reader starts open, nothing is blocked';
    logger.warn({ err: error }, `Redis is away (${String(error)}): ${memory} until it answers`);
  }

  function onFault(channel: string, fault: string): void {
    counters.channelFaults++;
    if (faulty.has(channel) || faulty.size >= 1_000) return;
    faulty.add(channel);
    logger.warn({ channel }, `the keys of channel ${channel} cannot be read as they should: ${fault}`);
  }

  function hurry(): void {
    hurried = true;
    bell.ring();
  }

  function* wanted(): Iterable<string> {
    yield* rules?.namedChannels() ?? [];
    yield* asked.channels();
  }

  function find(name: unknown): { channel: string; view: View | undefined; hidden: View | undefined } | undefined {
    const found = asked.ask(name);
    if (asOf < 0) counters.answeredOpen++;
    if (found === undefined) {
      counters.invalidNames++;
      return undefined;
    }
    const { channel, fresh } = found;
    if (fresh && checks.size < askedMost) {
      checks.add(channel);
      bell.ring();
    }
    const view = views.get(channel);
    const isHidden = view?.blocked && rules?.policyFor(channel).mode !== 'off';
    return { channel, view, hidden: isHidden ? view : undefined };
  }

  function select<T>(items: readonly T[], { by }: SelectOptions<T> = {}): Selection<T> {
    const selection = selectVisible(items, by, { find, rules });
    counters.floored += selection.floored.length;
    return { ...selection, ageMs: performance.now() - asOf };
  }

  const floorShows = createFloor({ find, rules, asked });
  for (const channel of options.channels ?? []) asked.ask(canonicalChannel(channel));
  connections.commands.on('ready', hurry);
  const deps = {
    ...{ client: connections.commands, keys, clock, views, position, wanted },
    onGap: (reason: string) => {
      counters.gaps++;
      logger.warn({ reason }, `${reason}: the reader has taken a new snapshot`);
      gaps.tell({ reason });
    },
    onFault: (read: { channel: string; fault?: string }) => onFault(read.channel, read.fault ?? ''),
  };
  const isHurried = () => {
    const was = hurried;
    hurried = false;
    return was;
  };
  const loop = keepFresh(
    { deps, connections, bell, checks, resyncMs, graceMs: readyWithinMs, isHurried, onFresh, onAway },
    stop.signal,
  );

  return {
    isBlocked: (channel) => find(channel)?.hidden !== undefined,
    isFloored(channel, among) {
      const shown = floorShows(channel, among);
      if (shown) counters.floored++;
      return shown;
    },
    visible: (items, selectOptions) => select(items, selectOptions).items,
    select,
    stateOf(channel) {
      const found = find(channel);
      return describeView(channel, found?.view, found?.hidden !== undefined);
    },
    on: (event: 'transition' | 'gap', listener: ((event: Transition) => void) & ((event: GapEvent) => void)) =>
      event === 'gap' ? gaps.add(listener) : transitions.add(listener),
    ready,
    status: () => ({
      ...{
        connected: connected && asOf > 0,
        following,
        ready: asOf > 0,
        ageMs: performance.now() - asOf,
        size: views.size,
      },
      ...{ blocked: views.blockedCount(), asked: asked.size, counters: { ...counters } },
    }),
    async close() {
      stop.abort();
      clearTimeout(readyTimer);
      setReady(asOf > 0);
      connections.commands.off('ready', hurry);
      bell.ring();
      views.close();
      await connections.close();
      await Promise.all([loop, follower]);
    },
  };
}
