import type { ChannelBatch } from '../domain/batch.js';
import { ChannelModel } from '../domain/channel-model.js';
import { canonicalChannel } from '../domain/channel-name.js';
import { classify, type JudgedClass, resultOf } from '../domain/classify.js';
import { type Outcome, parseOutcome } from '../domain/outcome.js';
import { parseRulesValue, type Rules } from '../domain/rules.js';
import type { Transition } from '../domain/transition.js';
import type { Trial } from '../domain/trial.js';
import type { Fuseline } from '../fuseline.js';
import { createAdmit } from '../guard/admit.js';
import { createGuard } from '../guard/guard.js';
import { evidenceText } from '../intake/group.js';
import { track } from '../publisher/track.js';
import { Asked } from '../reader/asked.js';
import { createFloor } from '../reader/floor.js';
import { type SelectOptions, selectVisible } from '../reader/select.js';
import type { ReaderCounters } from '../reader/types.js';
import { applyTransition, describeView, levelOfView, newView, trialOf, type View } from '../reader/view.js';
import { FakePermits } from './fake-permits.js';

export type FakeOptions = {
  /** A rules document as a value, in either form. Default: every channel on, with the defaults (10 calls, 70 %, 30 minutes). */
  readonly rules?: unknown;
  /** Where the fake's clock begins, in ms. */
  readonly startsAtMs?: number;
};

/**
 * A Fuseline without Redis that judges by the pure model, at once. Its clock stands still but for `advance`, and for 1 ms per outcome
 * published, so that each call begins after the change before it. Permits of a half-open channel come back at their deadline by that clock.
 */
export type FakeFuseline<Channel extends string = string> = Fuseline<Channel> & {
  /** Blocks by hand: by the policy's length, for `forMs`, or without end (-1). Of a block that runs already it moves the end. */
  block(channel: Channel, forMs?: number): void;
  /** Ends a block by hand; judging resumes on an empty window. Without a block it does nothing. */
  unblock(channel: Channel): void;
  /** Moves the clock and takes every change that becomes due, each as of its own time. @throws {RangeError} `ms` is no number from 0 */
  advance(ms: number): void;
  /** Every valid outcome published, in order. */
  readonly published: readonly Outcome[];
  /** Every transition so far, in order. */
  readonly transitions: readonly Transition[];
};

/**
 * For the tests of services that use Fuseline: the same type as `createFuseline` gives, no Redis, no timers but that of a guard's `timeout`.
 *
 * @throws {Error} the rules are refused; the message names each item
 */
export function createFakeFuseline<Channel extends string = string>(options: FakeOptions = {}): FakeFuseline<Channel> {
  return new Fake<Channel>(readRules(options.rules), options.startsAtMs ?? 1_000_000).api();
}

function readRules(document: unknown = { mode: 'on' }): Rules {
  const parsed = parseRulesValue(document);
  if (parsed.ok) return parsed.rules;
  throw new Error(parsed.problems.map(({ path, message }) => `${path}: ${message}`).join('; '));
}

const HAND = { actor: 'test', note: '' };

class Fake<Channel extends string> {
  readonly #rules: Rules;
  readonly #models = new Map<string, ChannelModel>();
  readonly #published: Outcome[] = [];
  readonly #transitions: Transition[] = [];
  readonly #views = new Map<string, View>();
  readonly #permits = new FakePermits(() => this.#now);
  readonly #asked = new Asked(10_000);
  readonly #listeners = new Set<(transition: Transition) => void>();
  readonly #dropped = { invalid: 0, 'buffer-full': 0, closed: 0, shutdown: 0 };
  readonly #counters: ReaderCounters = {
    ...{ snapshots: 0, failures: 0, answeredOpen: 0, invalidNames: 0, floored: 0, transitions: 0 },
    ...{ staleTransitions: 0, unknownEntries: 0, gaps: 0, channelFaults: 0, listenerErrors: 0 },
  };
  #now: number;
  #position = 0;
  #closed = false;

  constructor(rules: Rules, now: number) {
    this.#rules = rules;
    this.#now = now;
  }

  api(): FakeFuseline<Channel> {
    const publish = (outcome: unknown) => this.#publish(outcome);
    const isBlocked = (channel: Channel) => this.#find(channel)?.hidden !== undefined;
    const isFloored = this.#floor();
    const stateOf = (channel: Channel) => {
      const found = this.#find(channel);
      return describeView(channel, found?.view, found?.hidden !== undefined, found?.trial);
    };
    const admit = createAdmit<Channel>(
      { isBlocked, isFloored, stateOf },
      { lend: this.#permits.lend, leaseMs: 60_000 },
    );
    return {
      publish,
      guard: createGuard({ admit, publish, stateOf }),
      admit: async (channel, how) => admit(channel, how),
      track: (channel, fn, how) => track(publish, channel, fn, how),
      flush: async () => true,
      counts: () => ({
        published: this.#published.length,
        sent: this.#published.length,
        unknown: 0,
        buffered: 0,
        dropped: { ...this.#dropped },
      }),
      isBlocked,
      visible: (items, how) => this.#select(items, how).items,
      select: (items, how) => ({ ...this.#select(items, how), ageMs: 0 }),
      stateOf,
      levelOf: (channel) => {
        const found = this.#find(channel);
        const mode = found === undefined ? 'on' : this.#rules.policyFor(found.channel).mode;
        return levelOfView(found?.view, found?.hidden !== undefined, mode);
      },
      on: (event: string, listener: (event: never) => void) =>
        this.#on(event, listener as (transition: Transition) => void),
      status: () => ({
        connected: true,
        following: true,
        ready: true,
        ageMs: 0,
        size: this.#views.size,
        blocked: [...this.#views.values()].filter(({ blocked }) => blocked).length,
        asked: 0,
        counters: { ...this.#counters },
        permits: this.#permits.counts(),
      }),
      close: async () => {
        this.#closed = true;
      },
      block: (channel, forMs = 0) =>
        this.#act(channel, (model) => model.block(this.#rules.policyFor(channel), this.#now, HAND, forMs)),
      unblock: (channel) =>
        this.#act(channel, (model) => model.unblock(this.#rules.policyFor(channel), this.#now, HAND)),
      advance: (ms) => this.#advance(ms),
      published: this.#published,
      transitions: this.#transitions,
    };
  }

  #publish(raw: unknown): void {
    const parsed = parseOutcome(raw);
    if (this.#closed || !parsed.ok) {
      this.#dropped[this.#closed ? 'closed' : 'invalid'] += 1;
      return;
    }
    const { outcome } = parsed;
    this.#published.push({ ...outcome });
    const policy = this.#rules.policyFor(outcome.channel);
    const kind = classify(policy, outcome);
    if (policy.mode === 'off' || kind === 'ignored') return;
    // A call begins after the state in which it is judged began; so the clock takes a step before each.
    this.#advance(1);
    this.#position += 1;
    const batch = toBatch(outcome, kind, this.#position, this.#now);
    this.#act(outcome.channel, (model) => model.record(policy, batch, this.#now));
  }

  #advance(ms: number): void {
    if (!(ms >= 0)) throw new RangeError(`advance wants milliseconds from 0, got ${ms}`);
    const to = this.#now + ms;
    for (;;) {
      const due = [...this.#models]
        .map(([channel, model]) => ({ channel, at: model.nextDue() }))
        .filter(({ at }) => at > 0 && at <= to);
      const first = due.sort((a, b) => a.at - b.at)[0];
      if (first === undefined) break;
      this.#now = Math.max(this.#now, first.at);
      this.#act(first.channel, (model) => model.recover(this.#rules.policyFor(first.channel), this.#now));
    }
    this.#now = to;
  }

  #act(name: string, step: (model: ChannelModel) => unknown): void {
    const channel = canonicalChannel(name);
    const model = this.#models.get(channel) ?? new ChannelModel(channel);
    this.#models.set(channel, model);
    step(model);
    for (const transition of model.takeTransitions()) {
      this.#transitions.push(transition);
      const view = this.#views.get(channel) ?? newView(channel);
      this.#views.set(channel, view);
      applyTransition(view, transition, this.#now, 0);
      this.#counters.transitions += 1;
      for (const listener of this.#listeners) this.#tell(listener, transition);
    }
  }

  /** As in the real thing, a listener that throws harms nobody else; a test that wants to see it looks at `status()`. */
  #tell(listener: (transition: Transition) => void, transition: Transition): void {
    try {
      listener(transition);
    } catch {
      this.#counters.listenerErrors += 1;
    }
  }

  #on(event: string, listener: (transition: Transition) => void): () => void {
    if (event === 'transition') this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #find(name: unknown): { channel: string; view?: View; hidden?: View; trial?: Trial } | undefined {
    const asked = this.#asked.ask(name);
    if (asked === undefined) {
      this.#counters.invalidNames += 1;
      return undefined;
    }
    const { channel } = asked;
    const view = this.#views.get(channel);
    const policy = this.#rules.policyFor(channel);
    if (!view?.blocked || policy.mode === 'off') return { channel, view };
    return { channel, view, hidden: view, trial: trialOf(view, policy) };
  }

  #floor(): (channel: Channel, among?: readonly Channel[], key?: string) => boolean {
    const { namedChannels, version, policyFor, minVisible } = this.#rules;
    const rules = { version: () => version, namedChannels: () => namedChannels, policyFor, minVisible };
    const floorShows = createFloor({ find: (name) => this.#find(name), rules, asked: this.#asked });
    return (channel, among, key) => {
      const shown = floorShows(channel, among, key);
      if (shown) this.#counters.floored += 1;
      return shown;
    };
  }

  #select<T>(items: readonly T[], options: SelectOptions<T> = {}) {
    const rules = { policyFor: this.#rules.policyFor, minVisible: this.#rules.minVisible };
    const selection = selectVisible(items, options, { find: (name) => this.#find(name), rules });
    this.#counters.floored += selection.floored.length;
    return selection;
  }
}

function toBatch(outcome: Outcome, kind: JudgedClass, position: number, now: number): ChannelBatch {
  return {
    partition: 'fake/log/0/0',
    results: resultOf(kind),
    entries: [[String(position), now, 1]],
    // What the fake is told of happens now: a call that lasted longer than its clock has run would always be late.
    times: [0, 0],
    evidence: kind === 'success' ? [] : [evidenceText(outcome, now)],
  };
}
