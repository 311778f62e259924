import type { ChannelRead, StoredState } from '../channel/snapshot.js';
import { PAUSED, RESUMED, trial } from '../domain/lane.js';
import type { Policy } from '../domain/policy.js';
import type { State, Transition, TransitionKind } from '../domain/transition.js';
import type { Trial } from '../domain/trial.js';
import type { ChannelState } from './types.js';

/** What this process believes about one channel. Times are Redis ms. */
export type View = {
  readonly channel: string;
  /** Of the newest transition known; 0: none. Never goes back. */
  epoch: number;
  /** Of the newest `observed`: the shadow lane's epochs are its own. */
  shadowEpoch: number;
  state: State;
  blocked: boolean;
  since: number;
  /** End of the state as people see it; -1: no end, 0: none. */
  until: number;
  /** When the block key goes, which is what ends a block here, half-open included; -1: never, 0: no block. */
  endsAt: number;
  /** Epoch of the last block; 0: none of ours. */
  block: number;
  /** Of half-open: which step, and whom it lets through as the feed said; unknown where only reads told of it. */
  step: number;
  share?: number;
  permits?: number;
  /** How far the channel in use is degraded; empty: not at all. */
  level: string;
  reason: string;
  incident: string;
  trips: number;
  actor?: string;
  note?: string;
  /** `performance.now()` when the epoch was learned: a read begun earlier may be older than what we know. */
  learnedAt: number;
};

export function newView(channel: string): View {
  const none = { epoch: 0, shadowEpoch: 0, since: 0, until: 0, endsAt: 0, block: 0, step: 0, trips: 0, learnedAt: 0 };
  return { channel, state: 'closed', blocked: false, level: '', reason: '', incident: '', ...none };
}

/**
 * Takes a transition of the feed over, if it is newer than the view. False: it is not, and must not be told either. `held` and
 * `observed` leave visibility as it is.
 */
export function applyTransition(view: View, transition: Transition, nowMs: number, localMs: number): boolean {
  const { kind, epoch, from, to, until, keyUntil: endsAt = until } = transition;
  if (kind === 'observed') {
    if (epoch <= view.shadowEpoch) return false;
    view.shadowEpoch = epoch;
    return true;
  }
  if (epoch <= view.epoch) return false;
  const { incident, trips, reason, actor, note } = transition;
  if (kind === 'held') {
    Object.assign(view, { epoch, incident, trips, reason, learnedAt: localMs });
    return true;
  }
  if (kind === 'suspected' || (from === 'closed' && to === 'closed')) {
    // No change of state: nothing is hidden or shown for it.
    Object.assign(view, { epoch, learnedAt: localMs, ...(kind === 'level' ? { level: transition.level ?? '' } : {}) });
    return true;
  }
  Object.assign(view, { epoch, incident, trips, learnedAt: localMs });
  // The next step of half-open is no change of state either.
  const moved = kind === 'extended' || kind === 'shortened' || (from === 'half-open' && to === 'half-open');
  const blocked = to !== 'closed' && (endsAt === -1 || endsAt > nowMs);
  const since = moved ? view.since : transition.at;
  Object.assign(view, { state: to, blocked, until, endsAt: blocked ? endsAt : 0, since, level: '' });
  if (kind === 'half-open' || !moved) {
    const { block, step = 0, share, permits } = transition;
    Object.assign(view, { block, step, share, permits });
  }
  // Another program that moves the end leaves what the block was for; a person takes it over.
  if (!moved || actor !== undefined || view.reason === '') Object.assign(view, { reason, actor, note });
  return true;
}

/** True where the read may be older than what the view knows already: it began before the newer epoch was learned. */
export function isOvertaken(view: View, read: ChannelRead, begunAt: number): boolean {
  return (read.state?.epoch ?? 0) < view.epoch && begunAt <= view.learnedAt;
}

/**
 * Makes the view what Redis holds. The block key alone decides about presence: deleted by hand is not blocked, set by a foreign hand
 * is. An older epoch than ours, read later, means that Redis lost writes: presence follows, the epoch stays, so that nothing is told
 * a second time.
 */
export function applyRead(view: View, read: ChannelRead, localMs: number): void {
  const { state, blockKey } = read;
  const foreign = blockKey !== undefined && (state === undefined || state.state === 'closed');
  const epoch = state?.epoch ?? 0;
  if (epoch > view.epoch) Object.assign(view, { epoch, learnedAt: localMs });
  view.blocked = blockKey !== undefined;
  view.endsAt = blockKey?.endsAt ?? 0;
  view.until = blockKey ? shownUntil(state, blockKey.endsAt) : 0;
  view.state = foreign ? (blockKey.value === 'half-open' ? 'half-open' : 'open') : (state?.state ?? 'closed');
  view.reason = foreign ? 'external' : (state?.reason ?? '');
  const { since = 0, incident = '', trips = 0, actor, note, level = '' } = state ?? {};
  Object.assign(view, { since, incident, trips, actor, note, level });
  const { block = 0, step = 0 } = foreign ? {} : (state ?? {});
  if (block !== view.block || step !== view.step)
    Object.assign(view, { block, step, share: undefined, permits: undefined });
}

/** A foreign hand that moved the key's expiry moved the end by as much. */
function shownUntil(state: StoredState | undefined, endsAt: number): number {
  if (state === undefined || state.state === 'closed' || endsAt === -1 || state.until <= 0) return endsAt;
  return state.until + endsAt - state.keyUntil;
}

/** A person decided, so the floor must not overrule: blocked by command, or by a key without an end. */
export function isByHand(view: View): boolean {
  return (view.state === 'open' && view.reason === 'manual') || view.endsAt === -1;
}

/**
 * Who is let through; `undefined` where the channel is not half-open, or nobody knows: then it is nobody. The rules in force come first, so
 * that all processes agree, whenever they learned of it; without rules it is what the feed said.
 */
export function trialOf(view: View, policy: Policy | undefined): Trial | undefined {
  const { state, blocked, block, step, share, permits } = view;
  if (state !== 'half-open' || !blocked || block === 0) return undefined;
  if (policy?.halfOpen) return { block, ...trial(policy, step), step };
  if (share !== undefined) return { block, step, share };
  return permits === undefined ? undefined : { block, step, permits };
}

/** The level as callers get it. Only mode `on` judges levels: what another one holds is left over. */
export function levelOfView(view: View | undefined, isHidden: boolean, mode: Policy['mode']): string {
  if (isHidden) return 'blocked';
  return mode === 'on' && view?.state === 'closed' && view.level !== '' ? view.level : 'normal';
}

/** The view as callers get it. One whose block has ended is closed, though nobody has said so yet. */
export function describeView<Channel extends string>(
  channel: Channel,
  view: View | undefined,
  blocked: boolean,
  trial: Trial | undefined,
): ChannelState<Channel> {
  const { epoch = 0, since = 0, reason = '', incident = '', trips = 0, actor, note } = view ?? {};
  const { state, until } = view?.blocked ? view : { state: 'closed' as const, until: 0 };
  return { channel, state, blocked, epoch, since, until, reason, incident, trips, actor, note, trial };
}

/**
 * The transition that the feed did not bring, made from the state that shows it; `undefined` where nothing was missed: the shadow lane
 * moves the epoch too. Evidence and counts are not known; where several were missed, it is the last.
 *
 * @param bornAt Redis ms of the first snapshot, of which nothing is news; `undefined` while it is being read
 */
export function missedTransition(
  before: View | undefined,
  read: ChannelRead & { state: StoredState },
  bornAt: number | undefined,
): Transition | undefined {
  const { state, channel } = read;
  const kind = before && before.epoch > 0 ? missedKind(before, state) : unseenKind(state, bornAt);
  if (kind === undefined) return undefined;
  const isBlock = kind === 'blocked' || kind === 'relapsed';
  const isStep = kind === 'half-open' && before?.since === state.since && before.state === 'half-open';
  const isMove = isStep || kind === 'extended' || kind === 'shortened' || kind === 'held' || kind === 'level';
  const isFirst = kind === 'blocked' || kind === 'paused';
  // What nobody saw begin went the usual way.
  const usual = kind === 'half-open' || kind === 'recovered' || kind === 'resumed' ? 'open' : 'closed';
  return {
    v: 1,
    kind,
    channel,
    epoch: isBlock && state.block > 0 ? state.block : state.epoch,
    at: isMove ? state.epoch : state.since,
    from: isMove ? state.state : !isFirst && before?.state === 'half-open' ? 'half-open' : usual,
    to: state.state,
    until: state.state === 'closed' ? 0 : state.until,
    reason: isStep ? 'ramp' : kind === 'level' ? kind : state.reason,
    ...(kind === 'level' ? { level: state.level, before: before?.level ?? '' } : {}),
    ...(kind === 'half-open' ? { step: state.step } : {}),
    actor: state.actor,
    note: state.note,
    incident: state.incident,
    trips: state.trips,
    block: state.block,
    blockedAt: state.blockedAt,
    evidence: [],
  };
}

function missedKind(before: View, state: StoredState): TransitionKind | undefined {
  if (before.state !== state.state || before.since !== state.since) return kindOf(state);
  if (state.state === 'closed') {
    if (state.reason === 'held' && before.reason !== 'held') return 'held';
    return state.level === before.level ? undefined : 'level';
  }
  if (state.state === 'half-open' && state.step !== before.step) return 'half-open';
  if (state.until === before.until) return undefined;
  return state.until === -1 || (before.until !== -1 && state.until > before.until) ? 'extended' : 'shortened';
}

/** The first snapshot reads every channel that is not plainly closed: one that is open and unknown later has opened since. */
function unseenKind(state: StoredState, bornAt: number | undefined): TransitionKind | undefined {
  if (bornAt === undefined) return undefined;
  if (state.state !== 'closed' || state.since > bornAt) return kindOf(state);
  return state.level !== '' ? 'level' : undefined;
}

function kindOf(state: StoredState): TransitionKind {
  if (state.state === 'half-open') return 'half-open';
  if (state.state === 'closed') return state.reason === RESUMED ? 'resumed' : 'recovered';
  if (state.reason === PAUSED) return 'paused';
  return state.trips > 1 ? 'relapsed' : 'blocked';
}
