import { z } from 'zod';
import { maskUrl, parseRedisUrl, RedisUrlError } from '../redis/client.js';
import { KAFKA_DEFINITIONS } from './kafka-definitions.js';
import { define, duration, text, whole, yesOrNo } from './kinds.js';

const redisUrl = z
  .string({ error: 'must be a Redis URL' })
  .trim()
  .superRefine((url, context) => {
    try {
      parseRedisUrl(url);
    } catch (error) {
      // A password that is not URL-encoded ends here as a URIError, which must not show it.
      context.addIssue({
        code: 'custom',
        message: error instanceof RedisUrlError ? error.message : 'must be a Redis URL with an encoded password',
      });
    }
  });

const maskRedis = (value: unknown) => (typeof value === 'string' ? maskUrl(value) : '***');

/**
 * Every static setting, by the name that it has in `fuseline.config.yaml`. The flag is the same name in kebab-case
 * (`--redis-url`). Durations are milliseconds once read.
 */
export const DEFINITIONS = {
  redisUrl: define({
    env: 'FUSELINE_REDIS_URL',
    schema: redisUrl,
    fallback: 'redis://127.0.0.1:6379',
    mask: maskRedis,
    about: 'channels, rules and feed',
  }),
  logRedisUrl: define({
    env: 'FUSELINE_LOG_REDIS_URL',
    schema: redisUrl,
    fallback: undefined,
    mask: maskRedis,
    about: 'the outcome log; default: redisUrl',
  }),
  queueRedisUrl: define({
    env: 'FUSELINE_QUEUE_REDIS_URL',
    schema: redisUrl,
    fallback: undefined,
    mask: maskRedis,
    about: 'BullMQ; default: redisUrl',
  }),
  prefix: define({
    env: 'FUSELINE_PREFIX',
    schema: z
      .string({ error: 'must be text' })
      .max(64, { error: 'must have at most 64 characters' })
      .regex(/^[^{}\s]*$/, { error: 'must not hold "{", "}" or white space' }),
    fallback: '',
    about: 'comes before every key',
  }),
  transport: define<'redis-stream' | 'kafka'>({
    env: 'FUSELINE_TRANSPORT',
    schema: z.enum(['redis-stream', 'kafka'], { error: 'must be redis-stream or kafka' }),
    fallback: 'redis-stream',
    about: 'kind of outcome log: redis-stream or kafka',
  }),
  ...KAFKA_DEFINITIONS,
  rules: define({
    env: 'FUSELINE_RULES',
    schema: text('must be the path of a file', () => true),
    fallback: undefined,
    about: 'file of rules that this process puts into fuseline:config',
  }),
  httpPort: define({
    env: 'FUSELINE_HTTP_PORT',
    schema: whole(0, 65_535),
    fallback: 9464,
    about: 'health and metrics; 0: a free one',
  }),
  httpHost: define({
    env: 'FUSELINE_HTTP_HOST',
    schema: text('must be a host name or an address', (value) => /^[A-Za-z0-9.:_-]{1,253}$/.test(value)),
    fallback: '127.0.0.1',
    about: 'address on which health and metrics are served',
  }),
  logLevel: define({
    env: 'FUSELINE_LOG_LEVEL',
    schema: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
      error: 'must be trace, debug, info, warn, error, fatal or silent',
    }),
    fallback: 'info',
    about: 'least severe line that is logged: trace, debug, info, warn, error, fatal or silent',
  }),
  freshFor: define({
    env: 'FUSELINE_FRESH_FOR',
    schema: duration(1_000, 24 * 3_600_000, 'from 1s to 24h'),
    fallback: 5 * 60_000,
    about: 'older outcomes are dropped as stale; the same in the whole fleet',
  }),
  logClockLead: define({
    env: 'FUSELINE_LOG_CLOCK_LEAD',
    schema: duration(0, 3_600_000, 'from 0 to 1h'),
    fallback: 0,
    about: 'by how much the clock of the log goes ahead of that of the channels',
  }),
  shards: define({
    env: 'FUSELINE_SHARDS',
    schema: whole(1, 256),
    fallback: 4,
    about: 'shards of the outcome log, when there are none yet',
  }),
  maxChannels: define({
    env: 'FUSELINE_MAX_CHANNELS',
    schema: whole(1, 1_000_000),
    fallback: 10_000,
    about: 'most channels that a worker judges within 10 minutes',
  }),
  permitLease: define({
    env: 'FUSELINE_PERMIT_LEASE',
    schema: duration(1_000, 3_600_000, 'from 1s to 1h'),
    fallback: 60_000,
    about: 'how long a permit of a half-open channel is lent to a call without a timeout of its own',
  }),
  rewind: define({
    env: 'FUSELINE_REWIND',
    schema: duration(0, 3_600_000, 'from 0 to 1h'),
    fallback: 30_000,
    about: 'how far workers go back after a failover',
  }),
  streamMaxLen: define({
    env: 'FUSELINE_STREAM_MAXLEN',
    schema: whole(1_000, 1_000_000_000),
    fallback: 1_000_000,
    about: 'hard cap of a shard, in entries',
  }),
  readMaxEntries: define({
    env: 'FUSELINE_READ_MAX_ENTRIES',
    schema: whole(1, 100_000),
    fallback: 2_000,
    about: 'most entries of one read',
  }),
  recordFile: define({
    env: 'FUSELINE_RECORD_FILE',
    schema: text('must be the path of a file', () => true),
    fallback: undefined,
    about: 'file in which outcome workers keep what they judge, for fuseline replay; default: none',
  }),
  recordFileMaxBytes: define({
    env: 'FUSELINE_RECORD_FILE_MAX_BYTES',
    schema: whole(100_000, 1_000_000_000_000),
    fallback: 268_435_456,
    about: 'size at which that file is put aside as <file>.1 and begun anew',
  }),
  recordFiles: define({
    env: 'FUSELINE_RECORD_FILES',
    schema: whole(1, 1_000),
    fallback: 4,
    about: 'how many such files are kept, the current one included',
  }),
  allowPrivateReceivers: define({
    env: 'FUSELINE_ALLOW_PRIVATE_RECEIVERS',
    schema: yesOrNo,
    fallback: false,
    about: 'whether alerts may go to private and local addresses',
  }),
} as const;

export type SettingName = keyof typeof DEFINITIONS;
type Value<N extends SettingName> = NonNullable<(typeof DEFINITIONS)[N]['schema']['_output']>;

/** Settings without a default of their own. */
type Optional =
  | 'kafkaBrokers'
  | 'kafkaSslCa'
  | 'kafkaSslCert'
  | 'kafkaSslKey'
  | 'kafkaSaslMechanism'
  | 'kafkaSaslUsername'
  | 'kafkaSaslPassword'
  | 'recordFile'
  | 'rules';

/** The settings in force. Durations in milliseconds. `logRedisUrl` and `queueRedisUrl` are `redisUrl` unless set. */
export type Settings = { readonly [N in Exclude<SettingName, Optional>]: Value<N> } & {
  readonly [N in Optional]?: Value<N>;
};
