import { z } from 'zod';

export const State = z.enum(['closed', 'open', 'half-open']);
export type State = z.infer<typeof State>;

/**
 * What happened to a channel.
 *
 * - `blocked`: closed → open, the first block of an incident. `relapsed`: the same within the hold, `trips` counts the blocks.
 * - `recovered`: → closed. `held`: the channel survived its hold, which ends the incident.
 * - `extended`, `shortened`: the end of a block was moved.
 * - `suspected`: would have been blocked, but too few sources fail; nothing is hidden, and people are told which sources.
 * - `paused`, `resumed`: hidden for as long as the third party itself asked, and back; no incident, and nobody is told.
 * - `floor`: no change of a channel, but news of a group (see `GroupFloor`). It goes to people alone, never through outbox or feed.
 * - `half-open`: open → half-open, or one step further in it: some are let through to try the channel.
 * - `level`: the channel in use is degraded, more or less than before; no change of state.
 * - `forced`, `force-ended`: a person keeps the channel in use and unjudged until `until`, and the end of that.
 * - `observed`: mode `observe` would have blocked; nothing is hidden. One per shadow incident.
 */
export const TransitionKind = z.enum([
  'blocked',
  'relapsed',
  'recovered',
  'held',
  'extended',
  'shortened',
  'half-open',
  'level',
  'forced',
  'force-ended',
  'suspected',
  'paused',
  'resumed',
  'observed',
  'floor',
]);
export type TransitionKind = z.infer<typeof TransitionKind>;

const SILENT = ['half-open', 'paused', 'resumed'] as const;
const told = TransitionKind.options.filter((kind) => !SILENT.some((silent) => silent === kind));

/** Kinds that people are told of; the others change nothing that they can act on. */
export const ToldKind = TransitionKind.exclude(SILENT, { error: `people are told of ${told.join(', ')}` });
export type ToldKind = z.infer<typeof ToldKind>;

/** One failure as the worker saw it, for alerts and for "why is it blocked". Opaque to Lua; at most 256 bytes as JSON. */
export const Evidence = z.object({
  at: z.number(),
  code: z.string().optional(),
  durationMs: z.number().optional(),
  source: z.string().optional(),
  /** How long the third party asked to wait. */
  retryAfterMs: z.number().optional(),
});
export type Evidence = z.infer<typeof Evidence>;

/** What a recovery job knows of its block, so that an end can be told even when Redis lost the state. Times in Redis ms. */
export const BlockEnd = z.object({
  channel: z.string(),
  /** Epoch of the block. */
  block: z.number(),
  /** Its planned end. */
  until: z.number(),
  incident: z.string(),
  trips: z.number(),
  blockedAt: z.number(),
});
export type BlockEnd = z.infer<typeof BlockEnd>;

/** Lua writes every field as text; a number comes back as one. */
const int = z.coerce.number().int();

/** A group of which so many members are blocked that readers show some of them all the same. */
export const GroupFloor = z.object({
  name: z.string(),
  /** Its `minVisible`. */
  floor: int,
  members: int,
  /** Members in use. */
  visible: int,
  /** Blocked and shown all the same, the least bad first; empty where a person blocked all of them. `until`: -1 without end. */
  shown: z.array(z.object({ channel: z.string(), until: int })),
});
export type GroupFloor = z.infer<typeof GroupFloor>;

/** What news of a group is named by where channels stand. No channel can be named so, because of the braces. */
export function groupSubject(name: string): string {
  return `{group} ${name}`;
}

/**
 * A change of state, as it leaves Lua through the outbox. Named for ever by channel and `epoch`. All times are Redis time in
 * milliseconds. Open: readers ignore kinds and fields they do not know.
 */
export const Transition = z.object({
  v: int.default(1),
  kind: TransitionKind,
  channel: z.string(),
  epoch: int,
  /** When it took effect: an end noticed late is told as of its own time. */
  at: int,
  from: State,
  to: State,
  /** End of the block, deadline of half-open, or end of a force: -1 for a block without end; 0 when the channel is closed. */
  until: int.default(0),
  /** `success-rate`, `slow-calls`, `consecutive-failures`, `too-many-failures`, `sequential-test`, `rate-limited`, `expired`, `deleted`, `manual`, `external`, `state lost`, … An open set: show it, do not branch on all of it. */
  reason: z.string(),
  /** When the block key goes, if later than `until`: half-open, or a release by hand, is to come. */
  keyUntil: int.optional(),
  /** Half-open: which step, 0 the first; who is let through: a share of users (hundredths of a percent) or so many calls at once. */
  step: int.optional(),
  share: int.optional(),
  permits: int.optional(),
  /** Level of a channel in use, now and before; empty: none. */
  level: z.string().optional(),
  before: z.string().optional(),
  /** Who did it by hand, and why. */
  actor: z.string().optional(),
  note: z.string().optional(),
  /** Names the incident within the channel: the epoch of its first block, as text. */
  incident: z.string(),
  /** Blocks in this incident so far: 1 is the first, 3 is the second relapse. */
  trips: int.default(1),
  /** Epoch of the block concerned; names the end of that block in every job. */
  block: int.default(0),
  /** When the block concerned began (for ends: how long it lasted is `at - blockedAt`). */
  blockedAt: int.default(0),
  /** The window that decided: slots, slots recorded, successes among the recorded. Slots never recorded count as successes. */
  size: int.optional(),
  recorded: int.optional(),
  succeeded: int.optional(),
  /** Slow calls in it, where the policy looks at them; those that count as failures are not among `succeeded`. */
  slow: int.optional(),
  /** The threshold, hundredths of a percent. */
  threshold: int.optional(),
  evidence: z.array(Evidence).default([]),
  /** Of kind `floor` alone. */
  group: GroupFloor.optional(),
});
export type Transition = z.infer<typeof Transition>;

/**
 * Reads one outbox entry. Evidence that a foreign hand damaged is left out rather than losing the transition.
 *
 * @throws {Error} the text is not a transition; the message shows its beginning
 */
export function parseTransition(channel: string, text: string): Transition {
  const raw: unknown = JSON.parse(text);
  const fields = z.looseObject({ evidence: z.array(z.string()).default([]) }).parse(raw);
  return Transition.parse({ ...fields, channel, evidence: fields.evidence.flatMap(readEvidence) });
}

function readEvidence(text: string): Evidence[] {
  try {
    const parsed = Evidence.safeParse(JSON.parse(text));
    return parsed.success ? [parsed.data] : [];
  } catch {
    return [];
  }
}
