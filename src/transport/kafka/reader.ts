import type { Consumer, EachBatchPayload } from 'kafkajs';
import type { RedisClient } from '../../redis/client.js';
import { backoffMs, sleep, withDeadline } from '../../redis/deadline.js';
import type { Keys } from '../../redis/keys.js';
import { serverIds } from '../../redis/servers.js';
import { beat, leave } from '../heartbeat.js';
import type { BatchHandler, DeadLetter, LogProgress, LogReader } from '../port.js';
import { type Log, quietLog, SILENT } from '../quiet-log.js';
import { isUnknownTopic, openKafka, rootCause } from './client.js';
import type { Consuming } from './consuming.js';
import { DeadLetters } from './dead-letters.js';
import { Lags } from './lags.js';
import { DEFAULT_TOPIC, type KafkaConnection } from './options.js';
import { Partitions } from './partitions.js';
import { clockWarning } from './topic.js';
import { TopicView } from './topic-view.js';

export type KafkaReaderOptions = KafkaConnection & {
  /** For `fuseline:log` and `fuseline:workers`. Opened and closed by the caller. */
  readonly client: RedisClient;
  /** Names this reader among the living: unique for every process that ever runs. Default: it is not listed. */
  readonly worker?: string;
  /** Other servers whose failover must make this reader go back too: those of the channels, where they lie elsewhere. */
  readonly watch?: readonly RedisClient[];
  readonly keys: Keys;
  readonly topic?: string;
  readonly group?: string;
  /** How far to go back after a failover of Redis; ms. */
  readonly rewindMs?: number;
  /** A consumer to which entries wait, and that reads none for so long, is replaced. */
  readonly stallMs?: number;
  readonly log?: Log;
};

type Settings = KafkaReaderOptions & Required<Omit<KafkaReaderOptions, keyof KafkaConnection>>;

const SESSION_MS = 10_000;
/** Often, because it is how a worker hears that another one left. */
const HEARTBEAT_MS = 500;
const LOOK_MS = 1_000;
/** New partitions are noticed within it. */
const METADATA_MS = 10_000;
/** A batch that takes longer is finished beside: its partition is paused, and the consumer reads the others and keeps its place. */
const DETACH_MS = 250;
const SIDE_BY_SIDE = 64;
const END_MS = 5_000;

/** Reads a topic as a member of a consumer group. Whatever ends the consumer, a new one is made after a while. */
export function createKafkaReader(options: KafkaReaderOptions): LogReader {
  const { topic = DEFAULT_TOPIC, group = 'fuseline', worker = '', watch = [] } = options;
  const { rewindMs = 30_000, stallMs = 30_000, log = SILENT } = options;
  return new KafkaReader({ ...options, topic, group, worker, watch, rewindMs, stallMs, log });
}

class KafkaReader implements LogReader {
  readonly #settings: Settings;
  readonly #warn: (facts: object, message: string) => void;
  /** kafkajs calls much an error that it then cures itself. */
  readonly #kafkajs: (facts: object, message: string) => void;
  readonly #deadLetters: DeadLetters;
  readonly #partitions: Partitions;
  readonly #counters: Record<string, number> = {};
  readonly #lags = new Lags();
  #away: string | undefined = 'connecting to Kafka';
  #joined = false;
  #lastBatchAt = performance.now();

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#warn = quietLog(settings.log);
    this.#kafkajs = quietLog(settings.log, 10_000);
    const { client, keys, topic, rewindMs, watch, log } = settings;
    this.#partitions = new Partitions({
      ...{ client, keys, topic, rewindMs, watch, warn: this.#warn },
      count: (name, by) => this.#count(name, by),
      tell: (facts, message) => log.warn(facts, message),
    });
    this.#deadLetters = new DeadLetters(this.#open(), settings.topic);
  }

  async run(handler: BatchHandler, signal: AbortSignal): Promise<void> {
    for (let attempt = 0; !signal.aborted; attempt += 1) {
      const startedAt = performance.now();
      await this.#consume(handler, signal).catch((error: unknown) => {
        this.#away = this.#trouble(error);
        this.#count('restarts');
        this.#warn({ err: rootCause(error) }, `${this.#away}; trying again`);
      });
      if (performance.now() - startedAt > 60_000) attempt = 0;
      if (!signal.aborted) await sleep(backoffMs(attempt, 500, 5_000), signal);
    }
    await this.#deadLetters.close();
    const { client, keys, worker } = this.#settings;
    if (worker !== '') await leave(client, keys, worker).catch(() => {});
  }

  async deadLetter(letter: DeadLetter): Promise<void> {
    await this.#deadLetters.append(letter);
    this.#count('dead_letters');
  }

  progress(): LogProgress {
    const paused = this.#away ?? this.#lags.unreadable;
    return {
      owned: this.#partitions.owned.map((n) => this.#partitions.get(n).name),
      lag: this.#lags.total(this.#partitions.owned),
      lastProgressAt: this.#lags.lastProgressAt,
      ...(paused === undefined ? {} : { paused }),
      counters: { ...this.#counters },
    };
  }

  /** One consumer's life. Resolves on the signal, rejects when it crashed or stalls; either way nothing is in flight afterwards. */
  async #consume(handler: BatchHandler, signal: AbortSignal): Promise<void> {
    const { topic, group, log } = this.#settings;
    const kafka = this.#open();
    const view = new TopicView(kafka, topic, group);
    const consumer = kafka.consumer({
      groupId: group,
      sessionTimeout: SESSION_MS,
      rebalanceTimeout: 30_000,
      heartbeatInterval: HEARTBEAT_MS,
      maxWaitTimeInMs: HEARTBEAT_MS,
      metadataMaxAge: METADATA_MS,
      allowAutoTopicCreation: false,
      // This reader makes a new consumer itself, with its own back-off.
      retry: { initialRetryTime: 200, maxRetryTime: 5_000, retries: 6, restartOnFailure: async () => false },
    });
    const round = new AbortController();
    const stopping = AbortSignal.any([signal, round.signal]);
    try {
      const clock = await view.clock();
      if (clock !== 'LogAppendTime') log.warn({ topic, clock }, clockWarning(topic, clock));
      const consuming: Consuming = {
        ...{ handler, signal: stopping, view, logClock: clock === 'LogAppendTime' },
        seek: (partition, offset) => consumer.seek({ topic, partition, offset: String(offset) }),
      };
      const crashed = new Promise<never>((_resolve, reject) => {
        consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
      });
      crashed.catch(() => {});
      consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
        this.#joined = true;
        this.#assign(payload.memberAssignment[topic] ?? []);
      });
      await consumer.connect();
      await consumer.subscribe({ topics: [topic], fromBeginning: true });
      log.info({ topic, group }, 'joining the consumer group');
      await consumer.run({
        autoCommit: false,
        eachBatchAutoResolve: false,
        partitionsConsumedConcurrently: SIDE_BY_SIDE,
        eachBatch: (payload) => this.#onBatch(payload, consuming),
      });
      await Promise.race([crashed, this.#lookAround(consuming)]);
    } finally {
      round.abort(new Error('the consumer ends'));
      await this.#end(consumer, view);
    }
  }

  /** What is in flight is finished and committed, then the partitions go to the others. Never rejects. */
  async #end(consumer: Consumer, view: TopicView): Promise<void> {
    await this.#partitions.atRest();
    await withDeadline(this.#partitions.finish(), END_MS, 'the last commit').catch(() => {});
    this.#joined = false;
    this.#assign([]);
    for (const end of [consumer.disconnect(), view.forget()])
      await withDeadline(end, END_MS, 'the end of the consumer').catch(() => {});
  }

  #assign(numbers: readonly number[]): void {
    const { topic, log } = this.#settings;
    this.#partitions.assign(numbers);
    this.#lastBatchAt = performance.now();
    if (numbers.length === 0) return;
    this.#count('rebalances');
    log.info({ topic, partitions: this.#partitions.owned }, 'reading partitions');
  }

  async #onBatch(payload: EachBatchPayload, consuming: Consuming): Promise<void> {
    const partition = this.#partitions.get(payload.batch.partition);
    if (consuming.signal.aborted || !this.#partitions.owned.includes(payload.batch.partition)) return;
    this.#lastBatchAt = performance.now();
    // Taken away and given back before the batch in hand was done.
    let work = partition.busy;
    if (work === undefined) {
      const refused = new AbortController();
      work = partition.take(payload, consuming, () => refused.abort());
      await Promise.race([work, sleep(DETACH_MS, refused.signal)]);
      if (partition.busy === undefined) return;
    }
    const resume = payload.pause();
    void work.then(resume);
  }

  /** Once a second: how much waits, whether anything moves, whether the log still is the same one. */
  async #lookAround(consuming: Consuming): Promise<void> {
    const { signal } = consuming;
    while (!signal.aborted) {
      await this.#look(consuming).catch((error: unknown) => {
        this.#away = this.#trouble(error);
        this.#warn({ err: rootCause(error) }, this.#away);
      });
      const waits = this.#lags.unreadable === undefined && this.#lags.waitsForConsumer(this.#partitions.mine());
      if (!waits || this.#away !== undefined) this.#lastBatchAt = performance.now();
      const still = performance.now() - this.#lastBatchAt;
      if (still > this.#settings.stallMs)
        throw new Error(`entries wait and none was read for ${Math.round(still / 1_000)} s`);
      await sleep(LOOK_MS, signal);
    }
  }

  async #look(consuming: Consuming): Promise<void> {
    const { view } = consuming;
    const seen = await withDeadline(view.partitions(), END_MS, 'a question about the topic');
    const mine = this.#partitions.mine();
    if ([...mine.keys()].some((n) => !seen.has(n))) await view.forget();
    this.#lags.see(mine, seen);
    const { unreadable } = this.#lags;
    if (unreadable !== undefined) this.#warn({ reason: unreadable }, 'a partition is held');
    if (this.#joined) this.#away = undefined;
    // Redis away is the handler's trouble, not ours.
    const { client, keys, worker, watch } = this.#settings;
    if (worker !== '') await beat(client, keys, worker).catch(() => {});
    const servers = await serverIds([client, ...watch]).catch(() => []);
    for (const partition of mine.values()) void partition.look(servers, consuming);
  }

  #trouble(error: unknown): string {
    if (isUnknownTopic(error))
      return `the topic ${this.#settings.topic} does not exist (fuseline kafka create-topic makes it)`;
    return `Kafka cannot be used: ${rootCause(error).message}`;
  }

  #open() {
    return openKafka({ ...this.#settings, onError: (message) => this.#kafkajs({ message }, 'kafkajs complains') });
  }

  #count(name: string, by = 1): void {
    this.#counters[name] = (this.#counters[name] ?? 0) + by;
  }
}
