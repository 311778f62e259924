import { type Outcome, type OutcomeInput, parseOutcome } from '../domain/outcome.js';

/** What an outcome costs in memory beside its texts. */
const OBJECT_BYTES = 120;

/**
 * A copy that is checked and then ours: the caller may change the object later, and a getter may answer otherwise the second time.
 * What is wrong comes back as text.
 */
export function readOutcome(input: unknown, source: string | undefined): Outcome | string {
  try {
    if (typeof input !== 'object' || input === null)
      return `an outcome must be an object, got ${input === null ? 'null' : typeof input}`;
    const given = input as Partial<Record<keyof OutcomeInput, unknown>>;
    // One shape for all, which is faster than a copy field by field; what is undefined is not written to the log.
    const { channel, success, durationMs, retryAfterMs, code, at } = given;
    const copy = { channel, success, durationMs, retryAfterMs, code, at, source: given.source ?? source };
    const parsed = parseOutcome(copy);
    return parsed.ok ? parsed.outcome : parsed.reason;
  } catch {
    return 'an outcome whose fields can be read without an error is wanted';
  }
}

/** About how much memory it takes. */
export function bytesOf({ channel, code, source, at }: Outcome): number {
  const characters =
    channel.length + (code?.length ?? 0) + (source?.length ?? 0) + (typeof at === 'string' ? at.length : 0);
  return OBJECT_BYTES + 2 * characters;
}
