import { z } from 'zod';
import { parseDuration } from '../domain/duration.js';

/** One static setting: what it is called in each place, how its text or value is read, and what it is without any of them. */
export type Definition<T> = {
  readonly env: string;
  readonly schema: z.ZodType<T>;
  readonly fallback: T | undefined;
  /** Shown instead of the value in `config show` and in errors. */
  readonly mask?: (value: unknown) => string;
  readonly about: string;
};

/** Text without edge white space that `accept` takes; `rule` completes "FUSELINE_X: … , got …". */
export const text = (rule: string, accept: (value: string) => boolean) =>
  z.string({ error: rule }).trim().min(1, { error: rule }).refine(accept, { error: rule });

/** Numbers come as text from flags and environment, and as numbers from the file. */
export const whole = (least: number, most: number) => {
  const error = `must be a whole number from ${least} to ${most}`;
  const digits = z
    .string({ error })
    .regex(/^\d{1,15}$/, { error })
    .transform(Number);
  return z
    .union([z.number({ error }), digits], { error })
    .pipe(z.number().int({ error }).min(least, { error }).max(most, { error }));
};

/** In milliseconds once read; written with a unit. */
export const duration = (leastMs: number, mostMs: number, range: string) => {
  const error = `must be a duration ${range}, such as 1500ms, 30s or 5m`;
  return z.union([z.string(), z.literal(0)], { error }).transform((value, context) => {
    const ms = parseDuration(typeof value === 'string' ? value.trim() : value);
    if (ms !== undefined && ms >= leastMs && ms <= mostMs) return ms;
    context.addIssue({ code: 'custom', message: error });
    return z.NEVER;
  });
};

/** `true`, `false`, `1` or `0`. */
export const yesOrNo = z
  .union([z.boolean(), z.literal('true'), z.literal('false'), z.literal('1'), z.literal('0')], {
    error: 'must be true or false',
  })
  .transform((value) => value === true || value === 'true' || value === '1');

/** Checks that a definition's parts fit each other, and keeps its type. */
export function define<T>(definition: Definition<T>): Definition<T> {
  return definition;
}
