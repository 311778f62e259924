import { z } from 'zod';
import { parseDuration } from './duration.js';
import { Mode, PolicyRule, policyFields, WINDOW_MOST } from './policy-schema.js';
import { duration, mapping, named, rate, shortText, whole } from './schema-parts.js';
import { ToldKind } from './transition.js';

export const CHANNELS_MOST = 10_000;
const NAMED_MOST = 1_000;

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
      kinds: z.array(ToldKind).min(1, { error: 'kinds must name at least one kind' }).optional(),
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
