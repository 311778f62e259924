import type { FeedEntry } from '../channel/feed.js';
import { canonicalChannel } from '../domain/channel-name.js';
import type { Transition } from '../domain/transition.js';
import type { Trial } from '../domain/trial.js';
import { Keys } from '../redis/keys.js';
import type { Reader, ReaderOptions } from './api.js';
import { Asked } from './asked.js';
import { Bell } from './bell.js';
import { RedisClock } from './clock.js';
import { openConnections } from './connections.js';
import { createFloor } from './floor.js';
import { FeedPosition, followFeed } from './follow.js';
import { Listeners } from './listeners.js';
import { keepFresh } from './loop.js';
import { type Selection, type SelectOptions, selectVisible } from './select.js';
import { type GapEvent, processWarnings, type ReaderCounters } from './types.js';
import { describeView, levelOfView, trialOf, type View } from './view.js';
import { Views } from './views.js';

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

  function find(name: unknown): { channel: string; view?: View; hidden?: View; trial?: Trial } | undefined {
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
    if (!view?.blocked) return { channel, view };
    const policy = rules?.policyFor(channel);
    return policy?.mode === 'off' ? { channel, view } : { channel, view, hidden: view, trial: trialOf(view, policy) };
  }

  function select<T>(items: readonly T[], options: SelectOptions<T> = {}): Selection<T> {
    const selection = selectVisible(items, options, { find, rules });
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
    isFloored(channel, among, key) {
      const shown = floorShows(channel, among, key);
      if (shown) counters.floored++;
      return shown;
    },
    visible: (items, selectOptions) => select(items, selectOptions).items,
    select,
    stateOf(channel) {
      const found = find(channel);
      return describeView(channel, found?.view, found?.hidden !== undefined, found?.trial);
    },
    levelOf(channel) {
      const found = find(channel);
      const mode = (found && rules?.policyFor(found.channel).mode) ?? 'on';
      return levelOfView(found?.view, found?.hidden !== undefined, mode);
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
