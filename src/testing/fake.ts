import type { ChannelBatch } from '../domain/batch.js';
import { ChannelModel } from '../domain/channel-model.js';
import { canonicalChannel } from '../domain/channel-name.js';
import { type Outcome, parseOutcome } from '../domain/outcome.js';
import { parseRulesValue, type Rules } from '../domain/rules.js';
import type { Transition } from '../domain/transition.js';
import type { Fuseline } from '../fuseline.js';
import { isIgnored } from '../intake/group.js';
import { track } from '../publisher/track.js';
import { selectVisible } from '../reader/select.js';
import { newView, type View } from '../reader/view.js';

export type FakeOptions = {
  /** A rules document as a value, in either form. Default: every channel on, with the defaults (10 calls, 70 %, 30 minutes). */
  readonly rules?: unknown;
  /** Where the fake's clock begins, in ms. */
  readonly startsAtMs?: number;
};

/** A Fuseline without Redis that judges by the pure model, at once, under a clock that only `advance` moves. */
export type FakeFuseline<Channel extends string = string> = Fuseline<Channel> & {
  /** Blocks by hand: by the policy's length, for `forMs`, or without end (-1). */
  block(channel: Channel, forMs?: number): void;
  unblock(channel: Channel): void;
  /** Moves the clock and takes every change that becomes due, each as of its own time. */
  advance(ms: number): void;
  /** Every valid outcome published, in order. */
  readonly published: readonly Outcome[];
  /** Every transition so far, in order. */
  readonly transitions: readonly Transition[];
};

/**
 * For the tests of services that use Fuseline: the same type as `createFuseline` gives, no Redis, no timers.
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
  readonly #listeners = new Set<(transition: Transition) => void>();
  readonly #dropped = { invalid: 0, 'buffer-full': 0, closed: 0, shutdown: 0 };
  #now: number;
  #position = 0;
  #closed = false;

  constructor(rules: Rules, now: number) {
    this.#rules = rules;
    this.#now = now;
  }

  api(): FakeFuseline<Channel> {
    const publish = (outcome: unknown) => this.#publish(outcome);
    return {
      publish,
      track: (channel, fn, how) => track(publish, channel, fn, how),
      flush: async () => true,
      counts: () => ({
        published: this.#published.length,
        sent: this.#published.length,
        unknown: 0,
        buffered: 0,
        dropped: { ...this.#dropped },
      }),
      isBlocked: (channel) => this.#find(channel)?.hidden !== undefined,
      visible: (items, how) => this.#select(items, how?.by).items,
      select: (items, how) => ({ ...this.#select(items, how?.by), ageMs: 0 }),
      stateOf: (channel) => {
        const view = this.#view(channel);
        const { epoch, since, until, reason, incident, trips } = view;
        return {
          channel,
          state: view.state,
          blocked: this.#find(channel)?.hidden !== undefined,
          epoch,
          since,
          until,
          reason,
          incident,
          trips,
        };
      },
      on: (event: string, listener: (event: never) => void) =>
        this.#on(event, listener as (transition: Transition) => void),
      status: () => ({
        connected: true,
        following: true,
        ready: true,
        ageMs: 0,
        size: this.#models.size,
        blocked: 0,
        asked: 0,
        counters: { ...NO_COUNTS },
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
    this.#published.push(outcome);
    const policy = this.#rules.policyFor(outcome.channel);
    if (policy.mode === 'off' || (outcome.code !== undefined && isIgnored(policy, outcome.code))) return;
    // A call begins after the state in which it is judged began; so the clock takes a step before each.
    this.#advance(1);
    this.#position += 1;
    const batch = toBatch(outcome, this.#position, this.#now);
    this.#act(outcome.channel, (model) => model.record(policy, batch, this.#now));
  }

  #advance(ms: number): void {
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
      for (const listener of this.#listeners) listener(transition);
    }
  }

  #on(event: string, listener: (transition: Transition) => void): () => void {
    if (event === 'transition') this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #view(channel: string): View {
    const view = newView(channel);
    const seen = this.#models.get(channel)?.view(this.#now);
    const last = this.#transitions.findLast(
      (transition) => transition.channel === channel && transition.kind !== 'observed',
    );
    if (seen === undefined || last === undefined) return view;
    const { epoch, reason, incident, trips } = last;
    const { state, blocked, since, until } = seen;
    return Object.assign(view, { state, blocked, since, until, endsAt: until, epoch, reason, incident, trips });
  }

  #find(name: unknown): { channel: string; hidden: View | undefined } | undefined {
    try {
      const channel = canonicalChannel(name);
      const view = this.#view(channel);
      return { channel, hidden: view.blocked && this.#rules.policyFor(channel).mode !== 'off' ? view : undefined };
    } catch {
      return undefined;
    }
  }

  #select<T>(items: readonly T[], by: keyof T | ((item: T) => string) | undefined) {
    const { policyFor, minVisible } = this.#rules;
    return selectVisible(items, by, { find: (name) => this.#find(name), rules: { policyFor, minVisible } });
  }
}

const NO_COUNTS = {
  ...{ snapshots: 0, failures: 0, answeredOpen: 0, invalidNames: 0, floored: 0, transitions: 0 },
  ...{ staleTransitions: 0, unknownEntries: 0, gaps: 0, channelFaults: 0, listenerErrors: 0 },
};

function toBatch(outcome: Outcome, position: number, now: number): ChannelBatch {
  const { success, durationMs = 0, code, source } = outcome;
  return {
    partition: 'fake/log/0/0',
    results: success ? '1' : '0',
    entries: [[String(position), now, 1]],
    // What the fake is told of happens now: a call that lasted longer than its clock has run would always be late.
    times: [0, 0],
    evidence: success ? [] : [JSON.stringify({ at: now, code, durationMs, source })],
  };
}
