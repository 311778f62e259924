import { z } from 'zod';
import { ChannelNameError, canonicalChannel, show } from './channel-name.js';

/** Longest call that an outcome may report: one hour. A longer one is a unit mistake (seconds for milliseconds). */
export const DURATION_MAX_MS = 3_600_000;
/** Longest wait in a publisher that an outcome may carry: a day. Whatever is older than `freshFor` is dropped as stale anyway. */
export const AGO_MAX_MS = 86_400_000;

/** Longest time to wait that an outcome may carry: a day. How much of it is followed is the policy's. */
export const RETRY_AFTER_MAX_MS = 86_400_000;

const Channel = z.unknown().transform((value, context) => {
  try {
    return canonicalChannel(value);
  } catch (error) {
    if (!(error instanceof ChannelNameError)) throw error;
    context.addIssue({ code: 'custom', message: error.message });
    return z.NEVER;
  }
});

const Success = z
  .union(
    [z.boolean(), z.literal(0), z.literal(1), z.literal('0'), z.literal('1'), z.literal('true'), z.literal('false')],
    {
      error: (issue) => `success must be 0, 1, true or false, got ${show(issue.input)}`,
    },
  )
  .transform((value) => value === true || value === 1 || value === '1' || value === 'true');

/** Redis Streams carry text only, so a number may come as decimal digits. */
function milliseconds(field: string, most: number) {
  const error = (issue: { input?: unknown }) => `${field} must be a number from 0 to ${most}, got ${show(issue.input)}`;
  const digits = z
    .string()
    .regex(/^\d{1,9}(\.\d{1,6})?$/, { error })
    .transform(Number);
  return z.union([z.number({ error }), digits], { error }).pipe(z.number().min(0, { error }).max(most, { error }));
}

const text = (field: string, most: number) =>
  z
    .union([z.string(), z.number()], { error: (issue) => `${field} must be text, got ${show(issue.input)}` })
    .transform((value) => String(value).toWellFormed().slice(0, most));

/**
 * How one call to a third party ended: the form that travels in the log and that programs in any language send. Open: fields we
 * do not know are ignored, so that newer publishers can talk to older workers.
 *
 * - `channel`: 1 to 128 UTF-8 bytes after NFC.
 * - `success`: `0`, `1`, `true` or `false` (as value or text).
 * - `durationMs`: how long the call took, 0 to 3,600,000.
 * - `agoMs`: how long the outcome waited in its publisher, by a monotonic clock; added at send.
 * - `retryAfterMs`: how long the third party asked to wait (`Retry-After` of a 429), 0 to 86,400,000; followed where the policy says so.
 * - `code`: the third party's own code, at most 128 characters; classified by the policy's `ignore`.
 * - `source`: host and service that made the call, at most 128 characters.
 * - `at`: the publisher's wall clock (ms or ISO text). Shown to people, never judged.
 */
export const Outcome = z.object(
  {
    channel: Channel,
    success: Success,
    durationMs: milliseconds('durationMs', DURATION_MAX_MS).optional(),
    agoMs: milliseconds('agoMs', AGO_MAX_MS).optional(),
    retryAfterMs: milliseconds('retryAfterMs', RETRY_AFTER_MAX_MS).optional(),
    code: text('code', 128).optional(),
    source: text('source', 128).optional(),
    at: z
      .union([z.number(), z.string().max(64)], {
        error: ({ input }) => `at must be a number (ms) or a text of at most 64 characters, got ${show(input)}`,
      })
      .optional(),
  },
  { error: ({ input }) => `an outcome must be an object with channel and success, got ${show(input)}` },
);
export type Outcome = z.output<typeof Outcome>;

/** What a caller hands to `publish`: an {@link Outcome} before validation; `agoMs` is ours to add. */
export type OutcomeInput<Channel extends string = string> = {
  channel: Channel;
  success: boolean;
  durationMs?: number;
  retryAfterMs?: number;
  code?: string;
  source?: string;
  at?: number | string;
};

export type ParsedOutcome = { ok: true; outcome: Outcome } | { ok: false; reason: string };

/**
 * Reads one outcome as it came out of the log. Never throws; the reason names every rule that was broken and the value it got.
 * The plain shape is accepted by hand (zod costs about ten times as much per outcome); zod decides about all the rest.
 */
export function parseOutcome(raw: unknown): ParsedOutcome {
  if (isPlain(raw)) {
    const channel = knownChannel(raw.channel);
    if (channel !== undefined) return { ok: true, outcome: channel === raw.channel ? raw : { ...raw, channel } };
  }
  const parsed = Outcome.safeParse(raw);
  if (parsed.success) return { ok: true, outcome: parsed.data };
  return { ok: false, reason: parsed.error.issues.map(explain).join('; ') };
}

function explain(issue: z.core.$ZodIssue): string {
  const field = issue.path.join('.');
  return field === '' || issue.message.startsWith(field) ? issue.message : `${field}: ${issue.message}`;
}

function isPlain(raw: unknown): raw is Outcome {
  if (typeof raw !== 'object' || raw === null) return false;
  const o = raw as Record<string, unknown>;
  return (
    typeof o.channel === 'string' &&
    typeof o.success === 'boolean' &&
    within(o.durationMs, DURATION_MAX_MS) &&
    within(o.agoMs, AGO_MAX_MS) &&
    within(o.retryAfterMs, RETRY_AFTER_MAX_MS) &&
    shortText(o.code) &&
    shortText(o.source) &&
    (o.at === undefined || Number.isFinite(o.at) || (typeof o.at === 'string' && o.at.length <= 64))
  );
}

const within = (value: unknown, most: number) =>
  value === undefined || (typeof value === 'number' && value >= 0 && value <= most);
const shortText = (value: unknown) =>
  value === undefined || (typeof value === 'string' && value.length <= 128 && value.isWellFormed());

const known = new Map<string, string>();
/** Canonical names are remembered (bounded), because the same few channels come a million times. */
function knownChannel(name: string): string | undefined {
  const found = known.get(name);
  if (found !== undefined) return found;
  try {
    const canonical = canonicalChannel(name);
    if (known.size >= 10_000) known.clear();
    known.set(name, canonical);
    return canonical;
  } catch {
    return undefined;
  }
}
