import { z } from 'zod';
import { DURATION_PATTERN, DURATION_RULE, parseDuration } from './duration.js';
import { TransitionKind } from './transition.js';

/** Most slots of a count window. More is refused, not cut: a fleet must not judge by other numbers than those written down. */
export const WINDOW_MOST = 1_000;
export const CHANNELS_MOST = 10_000;
const NAMED_MOST = 1_000;

/** A strict object: unknown keys are refused. */
const mapping = <T extends z.core.$ZodLooseShape>(shape: T) => z.strictObject(shape, { error: 'must be a mapping' });

/*
 * Schemas of what people write. They change nothing: a document is stored as written, and turned into numbers only when it is
 * resolved. Messages are rules without the value; the value is added when they are told (see rules-problems.ts).
 */

const rate = (field: string) => {
  const error = `${field} must be a percentage, a number from 0 to 100 with at most two decimals`;
  return z
    .number({ error })
    .min(0, { error })
    .max(100, { error })
    .refine((value) => Number(value.toFixed(2)) === value, { error });
};

const whole = (field: string, least: number, most: number) => {
  const error = `${field} must be a whole number from ${least} to ${most}`;
  return z.number({ error }).int({ error }).min(least, { error }).max(most, { error });
};

const duration = (field: string) => {
  const error = `${field} must be ${DURATION_RULE}, more than 0 and at most 366d`;
  return z
    .string({ error })
    .regex(DURATION_PATTERN, { error })
    .refine((value) => (parseDuration(value) ?? 0) > 0, { error });
};

const durationOrZero = (field: string) => {
  const error = `${field} must be 0 or ${DURATION_RULE}, at most 366d`;
  const text = z
    .string({ error })
    .regex(DURATION_PATTERN, { error })
    .refine((value) => parseDuration(value) !== undefined, { error });
  return z.union([text, z.literal(0, { error })], { error });
};

const shortText = (field: string, most: number) => {
  const error = `${field} must be a text of 1 to ${most} characters`;
  return z.string({ error }).min(1, { error }).max(most, { error });
};

/** At most `most` entries. Not part of the JSON Schema's types, so said as a refinement. */
const named = <T extends z.ZodType>(field: string, value: T, most: number) =>
  z
    .record(z.string(), value, { error: `${field} must be a mapping of names` })
    .refine((record) => Object.keys(record).length <= most, {
      error: `${field} must have at most ${most} entries`,
      abort: true,
    });

const modeError = { error: 'mode must be on, observe or off (as text)' };
const Mode = z.enum(['on', 'observe', 'off'], modeError);

const size = whole('window size', 1, WINDOW_MOST);
const windowKindError = 'window.kind must be count or time';
/** Most slots of a time window: all are read with every batch of the channel. */
export const SLOTS_MOST = 120;
const isSpan = (text: string) => {
  const spanMs = parseDuration(text) ?? 0;
  return spanMs >= 1_000 && spanMs <= 3_600_000;
};
const Window = z.union(
  [
    whole('window', 1, WINDOW_MOST),
    z.discriminatedUnion(
      'kind',
      [
        mapping({ kind: z.literal('count'), size }),
        mapping({
          kind: z.literal('time'),
          span: duration('span').refine(isSpan, { error: 'span must be from 1s to 1h' }),
          slots: whole('slots', 1, SLOTS_MOST).optional(),
          minCalls: whole('minCalls', 1, 1_000_000).optional(),
        }),
      ],
      { error: windowKindError },
    ),
  ],
  { error: `window must be a whole number from 1 to ${WINDOW_MOST}, or a mapping with a kind` },
);

const blockError = `block must be ${DURATION_RULE}, or a mapping with for, growth and max`;
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
    }),
  ],
  { error: blockError },
);

const policyFields = {
  mode: Mode.optional(),
  window: Window.optional(),
  successRate: rate('successRate').optional(),
  block: Block.optional(),
  hold: durationOrZero('hold').optional(),
  halfOpen: mapping({ percent: rate('halfOpen.percent') }).optional(),
  ignore: z.array(shortText('ignore', 128)).max(100, { error: 'ignore must have at most 100 codes' }).optional(),
};

/** Thresholds and times, each optional: what is missing comes from the layer below. A key that is given replaces the whole key. */
export const PolicyRule = mapping(policyFields);
export type PolicyRule = z.infer<typeof PolicyRule>;

const ChannelRule = mapping({
  policy: shortText('policy', 64).optional(),
  group: shortText('group', 64).optional(),
  ...policyFields,
});
export type ChannelRule = z.infer<typeof ChannelRule>;

const referenceRule = 'must be https://…, http://…, env:NAME or file:/absolute/path';
/** A value that may live outside the document. */
export const REFERENCE_PATTERN = /^(?:env:[A-Za-z_][A-Za-z0-9_]{0,127}|file:\/.{1,1024})$/;

const ReceiverRule = mapping({
  type: z.enum(['webhook', 'slack', 'dingtalk'], { error: 'type must be webhook, slack or dingtalk' }),
  url: shortText('url', 2_048).refine((url) => REFERENCE_PATTERN.test(url) || isWebUrl(url), {
    error: `url ${referenceRule}, without user and password`,
  }),
  secret: shortText('secret', 1_100).optional(),
  locale: z.enum(['en', 'zh-CN'], { error: 'locale must be en or zh-CN' }).optional(),
  timeZone: shortText('timeZone', 64)
    .refine(isTimeZone, { error: 'timeZone must be an IANA name such as Asia/Shanghai' })
    .optional(),
  mentions: z.array(shortText('mentions', 64)).max(50, { error: 'mentions must have at most 50 entries' }).optional(),
  keyword: shortText('keyword', 64).optional(),
  timeout: duration('timeout')
    .refine((value) => (parseDuration(value) ?? 0) <= 60_000, { error: 'timeout must be at most 60s' })
    .optional(),
});
export type ReceiverRule = z.infer<typeof ReceiverRule>;

const RouteRule = mapping({
  match: z
    .strictObject({
      group: shortText('group', 64).optional(),
      channel: shortText('channel', 128).optional(),
      kinds: z.array(TransitionKind).min(1, { error: 'kinds must name at least one kind' }).optional(),
    })
    .optional(),
  to: z
    .array(shortText('to', 64))
    .min(1, { error: 'to must name at least one receiver' })
    .max(50, { error: 'to must name at most 50 receivers' }),
});

/**
 * The rules document in its full form, as people write it. Strict: a key that we do not know is a mistake that would otherwise be
 * found when a channel is not blocked.
 */
export const RulesDocument = mapping({
  version: whole('version', 1, Number.MAX_SAFE_INTEGER).optional(),
  mode: Mode.optional(),
  defaults: PolicyRule.optional(),
  policies: named('policies', PolicyRule, NAMED_MOST).optional(),
  channels: named('channels', ChannelRule, CHANNELS_MOST).optional(),
  groups: named('groups', mapping({ minVisible: whole('minVisible', 0, 1_000) }), NAMED_MOST).optional(),
  receivers: named('receivers', ReceiverRule, 200).optional(),
  routes: z
    .array(RouteRule)
    .max(NAMED_MOST, { error: `routes must have at most ${NAMED_MOST} entries` })
    .optional(),
});
export type RulesDocument = z.infer<typeof RulesDocument>;

const switchError = 'switchMode must be on, off or a list of whole names between commas, such as ,ALIPAY,WECHAT,';
/**
 * The flat form: three numbers and a switch, as older programs push it. Missing fields take 10, 70, 30 and `off`. `switchMode` is
 * `on`, `off`, or the names of the channels that are on (all others are off).
 */
export const FlatRules = mapping({
  version: whole('version', 1, Number.MAX_SAFE_INTEGER).optional(),
  switchMode: z
    .string({ error: switchError })
    .max(1 << 20, { error: switchError })
    .refine((text) => text === 'on' || text === 'off' || /[^,\s]/.test(text.includes(',') ? text : ''), {
      error: switchError,
    })
    .optional(),
  windowSize: whole('windowSize', 1, WINDOW_MOST).optional(),
  successRate: rate('successRate').optional(),
  blockMinutes: whole('blockMinutes', 1, 527_040).optional(),
});
export type FlatRules = z.infer<typeof FlatRules>;

function isWebUrl(text: string): boolean {
  if (!/^https?:\/\//.test(text) || !URL.canParse(text)) return false;
  const url = new URL(text);
  return url.username === '' && url.password === '';
}

function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}
