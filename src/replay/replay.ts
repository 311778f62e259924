import type { Policy } from '../domain/policy.js';
import type { Rules } from '../domain/rules.js';
import { ChannelLimit } from '../intake/channel-limit.js';
import { groupBatch } from '../intake/group.js';
import type { DeadLetter, LogBatch } from '../transport/port.js';
import { ChannelReplay, type Tally } from './channel-replay.js';
import { type Incident, Incidents } from './incidents.js';

/** `on`: every channel as if its mode were `on`. `as-written`: as the rules say, so `observe` tells without hiding and `off` judges nothing. */
export type ReplayMode = 'on' | 'as-written';

export type ReplayOptions = {
  readonly rules: Pick<Rules, 'policyFor'>;
  readonly mode: ReplayMode;
  readonly freshForMs: number;
  /** Most channels judged within ten minutes of the past. */
  readonly maxChannels: number;
};

/** Every readable outcome is one of these. `healthy`: a success of a channel that had no failure to remember. */
export type Dispositions = {
  healthy: number;
  counted: number;
  /** Came during a block. */
  blocked: number;
  late: number;
  stale: number;
  duplicate: number;
  /** By code. */
  ignored: number;
  /** Mode `off`. */
  disabled: number;
  overLimit: number;
};

/** What one set of rules would have done. */
export type Replayed = {
  readonly dispositions: Dispositions;
  readonly incidents: readonly Incident[];
  /** Blocks beyond those in `incidents`. */
  readonly blocksOmitted: number;
  readonly pauses: { readonly times: number; readonly ms: number };
  readonly suspicions: number;
  /** By channel, the mode that the rules give it beside its counts. */
  readonly channels: ReadonlyMap<string, Tally & { readonly mode: Policy['mode'] }>;
  /** Channels that are no longer remembered one by one, and their outcomes. */
  readonly forgotten: { readonly channels: number } & Tally;
};

/**
 * Judges the past by a set of rules, exactly as workers judge the present: the same grouping and classification, the same model. Its
 * clock is the arrival of the outcomes; ends of blocks and holds come at their own times.
 */
export class Replay {
  readonly #options: ReplayOptions;
  readonly #policyFor: (channel: string) => Policy;
  readonly #channels = new Map<string, ChannelReplay>();
  readonly #incidents = new Incidents();
  readonly #limit: ChannelLimit;
  readonly #forgotten = { channels: 0, calls: 0, failures: 0, callsWhileBlocked: 0, failuresWhileBlocked: 0 };
  readonly #dispositions: Dispositions = {
    ...{ healthy: 0, counted: 0, blocked: 0, late: 0, stale: 0, duplicate: 0, ignored: 0, disabled: 0, overLimit: 0 },
  };
  #now = 0;
  #tidyAt: number;

  constructor(options: ReplayOptions) {
    const { rules, mode, maxChannels } = options;
    this.#options = options;
    const judged = new Map<Policy, Policy>();
    this.#policyFor = (channel) =>
      mode === 'on' ? switchedOn(rules.policyFor(channel), judged) : rules.policyFor(channel);
    this.#limit = new ChannelLimit(
      maxChannels,
      () => {},
      undefined,
      () => this.#now,
    );
    this.#tidyAt = 2 * maxChannels;
  }

  /**
   * Judges entries that arrived together; each call's `arrivalMs` may lie before that of the one before, as long as no channel's does.
   * Returns what could not be read.
   */
  take(batch: LogBatch, arrivalMs: number): readonly DeadLetter[] {
    if (arrivalMs > this.#now) this.#now = arrivalMs;
    const { channels, letters, unjudged } = groupBatch(batch, {
      policyFor: this.#policyFor,
      admits: (channel) => this.#limit.admits(channel),
      logClockLeadMs: 0,
    });
    const sum = this.#dispositions;
    for (const [channel, part] of channels) {
      const result = this.#channel(channel).record(part, arrivalMs);
      const { counted, duplicate, late, stale, blockedDropped: blocked } = result;
      sum.counted += counted;
      sum.duplicate += duplicate;
      sum.late += late;
      sum.stale += stale;
      sum.blocked += blocked;
      sum.healthy += part.results.length - counted - duplicate - late - stale - blocked;
    }
    sum.ignored += unjudged.ignored;
    sum.disabled += unjudged.disabled;
    sum.overLimit += unjudged.overLimit;
    return letters;
  }

  /** Takes what is still due by the end of what was read, and tells it all. */
  end(): Replayed {
    for (const one of this.#channels.values()) one.advance(this.#now);
    const { rules } = this.#options;
    const told = [...this.#channels].map(
      ([channel, { tally }]) => [channel, { ...tally, mode: rules.policyFor(channel).mode }] as const,
    );
    return {
      dispositions: this.#dispositions,
      incidents: this.#incidents.list(this.#now),
      blocksOmitted: this.#incidents.omitted,
      pauses: this.#incidents.pauses,
      suspicions: this.#incidents.suspicions,
      channels: new Map(told),
      forgotten: this.#forgotten,
    };
  }

  #channel(name: string): ChannelReplay {
    const found = this.#channels.get(name);
    if (found !== undefined) return found;
    if (this.#channels.size >= this.#tidyAt) this.#tidy();
    const made = new ChannelReplay(name, this.#policyFor(name), this.#options.freshForMs, {
      transition: (transition) => this.#incidents.take(transition),
      blocked: (channel, calls, failures) => this.#incidents.blocked(channel, calls, failures),
    });
    this.#channels.set(name, made);
    return made;
  }

  /** Channels that nothing is left of: a file in which order ids stand for channels has millions of them. */
  #tidy(): void {
    for (const [channel, one] of this.#channels) {
      if (!one.isForgettable(this.#now)) continue;
      this.#channels.delete(channel);
      this.#forgotten.channels += 1;
      for (const name of ['calls', 'failures', 'callsWhileBlocked', 'failuresWhileBlocked'] as const)
        this.#forgotten[name] += one.tally[name];
    }
    this.#tidyAt = this.#channels.size + this.#options.maxChannels;
  }
}

/** One object for all channels under one rule, as the rules give them. */
function switchedOn(policy: Policy, judged: Map<Policy, Policy>): Policy {
  if (policy.mode === 'on') return policy;
  const found = judged.get(policy) ?? { ...policy, mode: 'on' };
  judged.set(policy, found);
  return found;
}
