import type { ChannelRead } from '../channel/snapshot.js';
import { PAUSED } from '../domain/lane.js';
import { awaitsRelease, blockMs, type Mode, type Policy } from '../domain/policy.js';
import type { State } from '../domain/transition.js';
import type { ChannelStats } from '../intake/stats.js';
import { applyRead, isByHand, newView, type View } from '../reader/view.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import type { RulesInForce } from './rules-in-force.js';
import { readWindow, type WindowCalls, type WindowStatus, windowOf } from './status-window.js';

/** One channel as `status` tells it. Times in ms by the clock of Redis. */
export type ChannelStatus = {
  readonly channel: string;
  readonly mode: Mode;
  readonly state: State;
  readonly blocked: boolean;
  /** When the state began; 0 when nothing is known of it. */
  readonly since: number;
  /** End of the block; -1 without end, 0 not blocked. */
  readonly until: number;
  /** What is left of the block; `null` without end, or not blocked. */
  readonly leftMs: number | null;
  readonly reason: string;
  /** Done by a person. */
  readonly byHand: boolean;
  /** What a person decided for now, which no automatic decision undoes. */
  readonly override?: Override;
  readonly actor?: string;
  readonly note?: string;
  readonly incident: string;
  /** 0: the first block of its incident, or none. */
  readonly relapse: number;
  /** End of the time after a block in which a new one is a relapse; 0: not watched. */
  readonly watchedUntil: number;
  /** Until then a person keeps it in use, not judged; 0: nobody does. */
  readonly notJudgedUntil: number;
  /** Mode `observe`: it would be blocked until then; 0: it would not. */
  readonly wouldBeBlockedUntil: number;
  /** Present while half-open. */
  readonly trial?: TrialStatus;
  /** How far the channel in use is degraded; empty: not at all. */
  readonly level: string;
  /** At its end the block goes on, with a reminder, until somebody unblocks. */
  readonly awaitsRelease: boolean;
  /** Where blocks are learned from past outages: how many of those are known, and how long the next one's first block will be. */
  readonly learned?: { readonly outages: number; readonly blockMs: number };
  readonly window: WindowStatus;
  /** Outcomes of the last minute, all workers together. */
  readonly lastMinute: { readonly successes: number; readonly failures: number };
  /** What is wrong with the channel's keys. */
  readonly fault?: string;
};

/** Who is let through while half-open, and how many good calls of the step's `needed` there were. `step` 1 is the first. */
export type TrialStatus = {
  readonly step: number;
  readonly steps: number;
  readonly percent?: number;
  readonly permits?: number;
  readonly good: number;
  readonly needed: number;
};

/** `until`: -1 without end. */
export type Override = {
  readonly kind: 'blocked' | 'in use';
  readonly until: number;
  readonly actor?: string;
  readonly note?: string;
};

/** A person keeps the channel in use until then. */
type Force = { until: number; actor?: string; note?: string };

function overrideOf(view: View, force: Force | undefined): Override | undefined {
  const { blocked, until, actor, note } = view;
  if (blocked && isByHand(view)) return { kind: 'blocked', until, actor, note };
  return blocked || force === undefined ? undefined : { kind: 'in use', ...force };
}

/** What readers need not know and people want to. */
export type More = {
  calls: WindowCalls;
  force: Force | undefined;
  shadow: number;
  good: number;
  past: number[];
  shadowPast: number[];
};

export async function readMore(main: RedisClient, keys: Keys, channel: string): Promise<More> {
  const [calls, fields] = await Promise.all([
    readWindow(main, keys, channel),
    main
      .hmget(
        keys.state(channel),
        'forced',
        'shadow.state',
        'shadow.until',
        'forcedBy',
        'forcedNote',
        'good',
        'past',
        'shadow.past',
      )
      .catch((): null[] => []),
  ]);
  const [forced, shadowState, shadowUntil, actor, note, good, past, shadowPast] = fields;
  const until = Number(forced ?? 0) || 0;
  return {
    calls,
    good: Number(good ?? 0) || 0,
    past: numbers(past),
    shadowPast: numbers(shadowPast),
    force: until > 0 ? { until, ...(actor ? { actor } : {}), ...(note ? { note } : {}) } : undefined,
    shadow: shadowState === 'open' ? Number(shadowUntil ?? 0) || 0 : 0,
  };
}

/** @param step as the state has it; the rules may have fewer by now */
function trialOf({ halfOpen }: Policy, step: number, good: number): TrialStatus {
  const { steps = [], permits = 1, close = 1 } = halfOpen ?? {};
  const share = steps[step] ?? 0;
  const through = share > 0 ? { percent: share / 100 } : { permits };
  return { step: step + 1, steps: Math.max(steps.length, step + 1), ...through, good, needed: close };
}

/** Jitter is drawn when it blocks, and not told before. */
function learnedOf({ block, mode }: Policy, more: More): { outages: number; blockMs: number } {
  const past = mode === 'observe' || more.past.length === 0 ? more.shadowPast : more.past;
  return { outages: past.length, blockMs: blockMs({ ...block, jitter: undefined }, { trips: 1, past }, 0) };
}

const numbers = (text: string | null | undefined) => (text ? text.split(' ').map(Number) : []);

/** Puts together what was read of one channel. `nowMs`: Redis time. */
export function channelStatus(
  read: ChannelRead,
  more: More,
  { rules, nowMs }: { rules: RulesInForce; nowMs: number },
  lastMinute: ChannelStats | undefined,
): ChannelStatus {
  const view = newView(read.channel);
  applyRead(view, read, 0);
  const { channel, state, blocked, since, until, reason, actor, note, incident, trips } = view;
  const policy = rules.policyFor(channel);
  const later = (ms: number) => (ms > nowMs ? ms : 0);
  const force = more.force && more.force.until > nowMs ? more.force : undefined;
  const override = overrideOf(view, force);
  const watchedUntil = blocked ? 0 : later(read.state?.hold ?? 0);
  const isPaused = blocked && state === 'open' && reason === PAUSED;
  const isOn = (blocked && !isPaused) || watchedUntil > 0;
  return {
    channel,
    mode: policy.mode,
    state,
    blocked,
    since,
    until,
    leftMs: until > 0 ? Math.max(0, until - nowMs) : null,
    reason,
    byHand: reason === 'manual' || actor !== undefined,
    ...(override === undefined ? {} : { override }),
    ...(actor === undefined || actor === '' ? {} : { actor }),
    ...(note === undefined || note === '' ? {} : { note }),
    // Hidden as long as the third party asked, the incident that may still be watched is another story.
    incident: isOn ? incident : '',
    relapse: isOn ? Math.max(0, trips - 1) : 0,
    watchedUntil,
    notJudgedUntil: force?.until ?? 0,
    wouldBeBlockedUntil: later(more.shadow),
    ...(state === 'half-open' && blocked ? { trial: trialOf(policy, read.state?.step ?? 0, more.good) } : {}),
    level: blocked || policy.mode !== 'on' ? '' : view.level,
    awaitsRelease: awaitsRelease(policy) && state === 'open' && blocked && !isPaused,
    ...(policy.block.ofPast === undefined ? {} : { learned: learnedOf(policy, more) }),
    window: windowOf(policy, more.calls),
    lastMinute: lastMinute ?? { successes: 0, failures: 0 },
    ...(read.fault === undefined ? {} : { fault: read.fault }),
  };
}
