import { type Admission, type AdmitOptions, createAdmit } from './guard/admit.js';
import { createGuard, type Guard } from './guard/guard.js';
import { createLender, type PermitCounts } from './guard/lender.js';
import { createPublisher, type OutcomeInput, type Publisher, type PublisherOptions } from './publisher/index.js';
import { createReader, type Reader, type ReaderLogger, type ReaderStatus } from './reader/index.js';
import { closeRedis, openRedis } from './redis/client.js';
import { Keys } from './redis/keys.js';
import { createLiveRules } from './rules/live.js';
import type { Settings } from './settings/definitions.js';
import { kafkaConnection } from './settings/kafka-connection.js';
import { loadSettings } from './settings/load.js';

export type FuselineOptions = {
  /** `redis://…`, `redis-cluster://…` or `redis-sentinel://…`. Default: `FUSELINE_REDIS_URL`, then the settings file. */
  readonly url?: string;
  /** Where the outcome log lies, if elsewhere. */
  readonly logUrl?: string;
  /** What kind of log outcomes go to. Default: `FUSELINE_TRANSPORT`, then the settings file, then `redis-stream`. */
  readonly transport?: 'redis-stream' | 'kafka';
  /** `host:port`, several with commas between; the other settings of Kafka come from `FUSELINE_KAFKA_…` or the settings file. */
  readonly kafkaBrokers?: string;
  readonly kafkaTopic?: string;
  /** Comes before every key; as in the workers. */
  readonly prefix?: string;
  /** Host and service, told with every outcome that names no source of its own. */
  readonly source?: string;
  /** Channels to look at from the start. */
  readonly channels?: readonly string[];
  readonly onDrop?: PublisherOptions['onDrop'];
  readonly logger?: ReaderLogger;
};

export type FuselineStatus = ReaderStatus & { readonly permits: Readonly<PermitCounts> };

/** What a service needs: publish outcomes, ask for verdicts. {@link createFuseline} makes it, `fuseline/testing` makes one without Redis. */
export type Fuseline<Channel extends string = string> = Pick<
  Publisher<Channel>,
  'publish' | 'track' | 'flush' | 'counts'
> &
  Pick<Reader<Channel>, 'isBlocked' | 'visible' | 'select' | 'stateOf' | 'levelOf' | 'on'> & {
    /** The reader's own, and how often permits of half-open channels were asked for here. */
    status(): FuselineStatus;
    /** Runs a call as a circuit breaker does: see {@link Guard}. */
    guard: Guard<Channel>;
    /**
     * Asks whether one call may go, for those who make it themselves: `track` is handed the admission, or it is released by hand. Never
     * rejects. Asynchronous, as a half-open channel may have to lend a permit; all else is answered from memory.
     */
    admit(channel: Channel, options?: AdmitOptions<Channel>): Promise<Admission>;
    /** Sends what still waits (up to `timeoutMs`, default 5 s), then closes every connection. */
    close(options?: { timeoutMs?: number }): Promise<void>;
  };

/**
 * Opens a publisher and a reader on one Redis. Resolves as soon as the reader knows the state of the fleet, or after about two seconds if
 * Redis is away: it then starts open (nothing is blocked), says so through `logger`, and heals alone.
 *
 * @throws {SettingsError} a setting that cannot be used; the message names each
 */
export async function createFuseline<Channel extends string = string>(
  options: FuselineOptions = {},
): Promise<Fuseline<Channel>> {
  const { url: redisUrl, logUrl: logRedisUrl, prefix: chosen, logger, onDrop, channels, source } = options;
  const { transport, kafkaBrokers, kafkaTopic } = options;
  const { settings } = loadSettings({
    flags: { redisUrl, logRedisUrl, prefix: chosen, transport, kafkaBrokers, kafkaTopic },
    called: (name) => `the option ${name === 'redisUrl' ? 'url' : name === 'logRedisUrl' ? 'logUrl' : name}`,
  });
  const { prefix } = settings;
  const keys = new Keys(prefix);
  const client = openRedis(settings.redisUrl, 'commands');
  const log = logger
    ? { ...logger, info: logger.info.bind(logger), warn: logger.warn.bind(logger), error: logger.warn.bind(logger) }
    : undefined;
  const rules = await createLiveRules({ client, keys, startWithinMs: 1_000, logger: log });
  const reader = createReader<Channel>({ url: settings.redisUrl, prefix, rules, channels, logger });
  const publisher = createPublisher<Channel>({ ...logOf(settings), source, onDrop });
  await reader.ready;
  const publish = (outcome: OutcomeInput<Channel>, nowMs: number) => publisher.publishAt(outcome, nowMs);
  const lender = createLender(client, keys);
  const admit = createAdmit(reader, { lend: lender.lend, leaseMs: settings.permitLease });
  return {
    publish: (outcome) => publisher.publish(outcome),
    guard: createGuard({ admit, publish, stateOf: reader.stateOf }),
    admit: async (channel, how) => admit(channel, how),
    track: (channel, fn, how) => publisher.track(channel, fn, how),
    flush: (how) => publisher.flush(how),
    counts: () => publisher.counts(),
    isBlocked: reader.isBlocked,
    visible: reader.visible,
    select: reader.select,
    stateOf: reader.stateOf,
    levelOf: reader.levelOf,
    on: reader.on,
    status: () => ({ ...reader.status(), permits: lender.counts() }),
    async close(how) {
      await publisher.close(how);
      await reader.close();
      await rules.close();
      await closeRedis(client);
    },
  };
}

function logOf(settings: Settings): Pick<PublisherOptions, 'url' | 'prefix' | 'shards' | 'maxLen' | 'kafka'> {
  const { logRedisUrl: url, prefix, shards, streamMaxLen: maxLen } = settings;
  if (settings.transport !== 'kafka') return { url, prefix, shards, maxLen };
  const { kafkaTopic: topic, kafkaCompression: compression } = settings;
  return { kafka: { ...kafkaConnection(settings), topic, compression } };
}
