import { z } from 'zod';
import { DURATION_PATTERN, DURATION_RULE, parseDuration } from './duration.js';

/** A strict object: unknown keys are refused. */
export const mapping = <T extends z.core.$ZodLooseShape>(shape: T) =>
  z.strictObject(shape, { error: 'must be a mapping' });

/*
 * Schemas of what people write. They change nothing: a document is stored as written, and turned into numbers only when it is
 * resolved. Messages are rules without the value; the value is added when they are told (see rules-problems.ts).
 */

/** A percentage with at most two decimals. */
export const rate = (field: string) => {
  const error = `${field} must be a percentage, a number from 0 to 100 with at most two decimals`;
  return z
    .number({ error })
    .min(0, { error })
    .max(100, { error })
    .refine((value) => Number(value.toFixed(2)) === value, { error });
};

/** A whole number within bounds. */
export const whole = (field: string, least: number, most: number) => {
  const error = `${field} must be a whole number from ${least} to ${most}`;
  return z.number({ error }).int({ error }).min(least, { error }).max(most, { error });
};

/** A duration of more than 0. */
export const duration = (field: string) => {
  const error = `${field} must be ${DURATION_RULE}, more than 0 and at most 366d`;
  return z
    .string({ error })
    .regex(DURATION_PATTERN, { error })
    .refine((value) => (parseDuration(value) ?? 0) > 0, { error });
};

/** A duration, or a bare 0. */
export const durationOrZero = (field: string) => {
  const error = `${field} must be 0 or ${DURATION_RULE}, at most 366d`;
  const text = z
    .string({ error })
    .regex(DURATION_PATTERN, { error })
    .refine((value) => parseDuration(value) !== undefined, { error });
  return z.union([text, z.literal(0, { error })], { error });
};

/** A text of 1 to `most` characters. */
export const shortText = (field: string, most: number) => {
  const error = `${field} must be a text of 1 to ${most} characters`;
  return z.string({ error }).min(1, { error }).max(most, { error });
};

/** At most `most` entries. Not part of the JSON Schema's types, so said as a refinement. */
export const named = <T extends z.ZodType>(field: string, value: T, most: number) =>
  z
    .record(z.string(), value, { error: `${field} must be a mapping of names` })
    .refine((record) => Object.keys(record).length <= most, {
      error: `${field} must have at most ${most} entries`,
      abort: true,
    });
