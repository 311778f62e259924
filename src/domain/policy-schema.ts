import { z } from 'zod';
import { DURATION_RULE, parseDuration } from './duration.js';
import { DURATION_MAX_MS } from './outcome.js';
import { duration, durationOrZero, mapping, rate, shortText, whole } from './schema-parts.js';
import { FALSE_BLOCKS_PATTERN, parseFalseBlocks } from './window/sequential-test.js';

/** Most slots of a count window. More is refused, not cut: a fleet must not judge by other numbers than those written down. */
export const WINDOW_MOST = 1_000;

const modeError = { error: 'mode must be on, observe or off (as text)' };
export const Mode = z.enum(['on', 'observe', 'off'], modeError);

const size = whole('window size', 1, WINDOW_MOST);
const windowKindError = 'window.kind must be count, time, log or sequential';
/** Most slots of a time window: all are read with every batch of the channel. */
export const SLOTS_MOST = 120;
/** Most calls that a call log keeps: each is a member of a sorted set. */
export const LOG_MOST = 10_000;
const within = (least: number, most: number) => (text: string) => {
  const ms = parseDuration(text) ?? 0;
  return ms >= least && ms <= most;
};
const span = duration('span').refine(within(1_000, 3_600_000), { error: 'span must be from 1s to 1h' });
const minCalls = whole('minCalls', 1, 1_000_000).optional();
const falseBlocksRule =
  "falseBlocks must be a number per thousand, million or billion calls, from 1 per billion to 10 per thousand, such as '1 per million'";
const Window = z.union(
  [
    whole('window', 1, WINDOW_MOST),
    z.discriminatedUnion(
      'kind',
      [
        mapping({ kind: z.literal('count'), size }),
        mapping({ kind: z.literal('time'), span, slots: whole('slots', 1, SLOTS_MOST).optional(), minCalls }),
        mapping({ kind: z.literal('log'), span, minCalls, maxEntries: whole('maxEntries', 1, LOG_MOST).optional() }),
        mapping({
          kind: z.literal('sequential'),
          healthy: rate('healthy'),
          failing: rate('failing'),
          falseBlocks: z
            .string({ error: falseBlocksRule })
            .regex(FALSE_BLOCKS_PATTERN, { error: falseBlocksRule })
            .refine((text) => parseFalseBlocks(text) !== undefined, { error: falseBlocksRule })
            .optional(),
        }).refine(({ healthy, failing }) => healthy <= 99.99 && failing >= 1 && healthy - failing >= 5, {
          error: 'healthy must be at most 99.99, failing at least 1, and healthy at least 5 above failing',
        }),
      ],
      { error: windowKindError },
    ),
  ],
  { error: `window must be a whole number from 1 to ${WINDOW_MOST}, or a mapping with a kind` },
);

const blockError = `block must be ${DURATION_RULE}, or a mapping with for and, as wanted, growth, max, jitter, timesMean and min`;
const timesMeanError = { error: 'block.timesMean must be a number from 1 to 10' };
const Block = z.union(
  [
    duration('block'),
    mapping({
      for: duration('block.for'),
      growth: z
        .number({ error: 'growth must be a number from 1 to 100' })
        .min(1, { error: 'growth must be a number from 1 to 100' })
        .max(100, { error: 'growth must be a number from 1 to 100' })
        .optional(),
      max: duration('block.max').optional(),
      jitter: rate('block.jitter').max(50, { error: 'block.jitter must be at most 50' }).optional(),
      timesMean: z.number(timesMeanError).min(1, timesMeanError).max(10, timesMeanError).optional(),
      min: duration('block.min').optional(),
    })
      .refine(({ timesMean, min }) => min === undefined || timesMean !== undefined, {
        error: 'block.min is the shortest block that timesMean may give, and says nothing without it',
        path: ['min'],
      })
      .refine((block) => (parseDuration(block.min) ?? 0) <= (parseDuration(block.for) ?? 0), {
        error: 'block.min must not be longer than block.for',
        path: ['min'],
      }),
  ],
  { error: blockError },
);

const share = (field: string) => rate(field).gt(0, { error: `${field} must be more than 0` });
const rampError = 'halfOpen.ramp must be a list of at most 10 percentages, each above the one before';
const HalfOpen = mapping({
  percent: share('halfOpen.percent').optional(),
  permits: whole('halfOpen.permits', 1, 1_000).optional(),
  close: whole('halfOpen.close', 1, 1_000).optional(),
  wait: duration('halfOpen.wait').optional(),
  atDeadline: z.enum(['close', 'open'], { error: 'halfOpen.atDeadline must be close or open' }).optional(),
  ramp: z.array(share('halfOpen.ramp'), { error: rampError }).max(10, { error: rampError }).optional(),
})
  .refine(({ percent, permits }) => percent === undefined || permits === undefined, {
    error: 'halfOpen lets through a percent of users or a number of permits, not both',
  })
  .refine(
    ({ percent, permits, ramp = [] }) => {
      const steps = [permits === undefined ? (percent ?? 10) : 0, ...ramp];
      return steps.every((step, i) => i === 0 || step > steps[i - 1]!);
    },
    { error: rampError, path: ['ramp'] },
  );

const levelsError = 'levels must name 1 to 8 levels, each with 1 to 32 of a-z, 0-9 and -, beginning with a letter';
const Levels = z
  .record(z.string(), share('levels'), { error: levelsError })
  .refine((levels) => Object.keys(levels).every((name) => /^[a-z][a-z0-9-]{0,31}$/.test(name)), { error: levelsError })
  .refine((levels) => Object.keys(levels).length >= 1 && Object.keys(levels).length <= 8, { error: levelsError })
  .refine((levels) => new Set(Object.values(levels)).size === Object.keys(levels).length, {
    error: 'levels must have different lines',
  });

/** Most sources that can be asked for: that many of the last failures are kept as evidence. */
export const SOURCES_MOST = 20;
const rateLimitedError = 'rateLimited must be count, or a mapping with min and max';
const retryTime = (field: string) =>
  duration(field)
    .refine(within(1_000, 300_000), { error: `${field} must be from 1s to 5m` })
    .optional();
const codes = (field: string) =>
  z
    .array(shortText(field, 128), { error: `${field} must be a list of codes` })
    .max(100, { error: `${field} must have at most 100 codes` })
    .optional();

/** What every layer of a document may say about judging. */
export const policyFields = {
  mode: Mode.optional(),
  window: Window.optional(),
  successRate: rate('successRate').optional(),
  block: Block.optional(),
  hold: durationOrZero('hold').optional(),
  halfOpen: HalfOpen.optional(),
  release: z.enum(['auto', 'manual'], { error: 'release must be auto or manual' }).optional(),
  levels: Levels.optional(),
  ignore: codes('ignore'),
  codes: mapping({
    success: codes('codes.success'),
    failure: codes('codes.failure'),
    ignored: codes('codes.ignored'),
  }).optional(),
  slowCall: duration('slowCall')
    .refine(within(1, DURATION_MAX_MS), { error: 'slowCall must be at most 1h' })
    .optional(),
  slowAs: z
    .literal('failure', { error: 'slowAs must be failure; for a threshold of its own give slowRate' })
    .optional(),
  slowRate: rate('slowRate').optional(),
  minFailures: whole('minFailures', 1, 100_000).optional(),
  maxFailures: whole('maxFailures', 0, 100_000).optional(),
  maxConsecutiveFailures: whole('maxConsecutiveFailures', 0, 100_000).optional(),
  minSources: whole('minSources', 1, SOURCES_MOST).optional(),
  dynamic: z.boolean({ error: 'dynamic must be true or false' }).optional(),
  rateLimited: z
    .union(
      [
        z.literal('count', { error: rateLimitedError }),
        mapping({ min: retryTime('rateLimited.min'), max: retryTime('rateLimited.max') }).refine(
          ({ min, max }) => (parseDuration(min) ?? 1_000) <= (parseDuration(max) ?? 300_000),
          { error: 'rateLimited.min must not be longer than rateLimited.max' },
        ),
      ],
      { error: rateLimitedError },
    )
    .optional(),
};

/** Thresholds and times, each optional: what is missing comes from the layer below. A key that is given replaces the whole key. */
export const PolicyRule = mapping(policyFields);
export type PolicyRule = z.infer<typeof PolicyRule>;
