import type { EachBatchPayload } from 'kafkajs';
import type { RedisClient } from '../../redis/client.js';
import { backoffMs, sleep, withDeadline } from '../../redis/deadline.js';
import type { Keys } from '../../redis/keys.js';
import { onOtherServer, serverIds } from '../../redis/servers.js';
import { beat, leave } from '../heartbeat.js';
import type { BatchHandler, DeadLetter, LogProgress, LogReader } from '../port.js';
import { type Log, quietLog, SILENT } from '../quiet-log.js';
import { isUnknownTopic, openKafka, rootCause } from './client.js';
import type { Consuming } from './consuming.js';
import { DeadLetters } from './dead-letters.js';
import { Lags } from './lags.js';
import { Member } from './member.js';
import { DEFAULT_TOPIC, type KafkaConnection } from './options.js';
import { Partitions } from './partitions.js';
import { clockWarning } from './topic.js';

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
  /** After so long without a sign of this reader the others of its group get its partitions; ms. */
  readonly sessionMs?: number;
  /** How far to go back after a failover of Redis; ms. */
  readonly rewindMs?: number;
  /** A consumer to which entries wait, and that reads none for so long, is replaced. */
  readonly stallMs?: number;
  readonly log?: Log;
};

type Settings = KafkaReaderOptions & Required<Omit<KafkaReaderOptions, keyof KafkaConnection>>;

const LOOK_MS = 1_000;
/** How long the brokers may take to answer a question. */
const ANSWER_MS = 5_000;
/** A batch that takes longer is finished beside: its partition is paused, and the consumer reads the others and keeps its place. */
const DETACH_MS = 250;
/** For the last commit and the goodbye to the group, after which the others take over at once. */
const END_MS = 4_000;
/** The same while the brokers do not answer: most likely in vain, and somebody waits for this process to end. */
const END_WHILE_AWAY_MS = 1_000;

/** Entries wait, the brokers answer, and yet nothing is read. */
class Stall extends Error {
  override readonly name = 'Stall';
}

/** Reads a topic as a member of a consumer group. Whatever ends the consumer, a new one is made after a while. */
export function createKafkaReader(options: KafkaReaderOptions): LogReader {
  const { topic = DEFAULT_TOPIC, group = 'fuseline', worker = '', watch = [] } = options;
  const { sessionMs = 10_000, rewindMs = 30_000, stallMs = 30_000, log = SILENT } = options;
  return new KafkaReader({ ...options, topic, group, worker, watch, sessionMs, rewindMs, stallMs, log });
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
  /** How much waited when a consumer was replaced because it read nothing, until one reads. */
  #stalledLag: number | undefined;
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
    this.#deadLetters = new DeadLetters(openKafka({ ...settings, onError: this.#complain }), settings.topic);
  }

  async run(handler: BatchHandler, signal: AbortSignal): Promise<void> {
    const { client, keys, worker, watch } = this.#settings;
    const ignore = onOtherServer([client, ...watch], () => this.#partitions.doubtServers());
    for (let attempt = 0; !signal.aborted; attempt += 1) {
      const startedAt = performance.now();
      await this.#consume(handler, signal).catch((error: unknown) => {
        this.#count('restarts');
        // A stall is no outage, during which a worker would be waited for: it is not over before something is read.
        if (!(error instanceof Stall)) this.#away = this.#trouble(error);
        this.#warn({ err: rootCause(error) }, `${this.#away ?? rootCause(error).message}; trying again`);
      });
      if (performance.now() - startedAt > 60_000) attempt = 0;
      if (!signal.aborted) await sleep(backoffMs(attempt, 500, 5_000), signal);
    }
    await withDeadline(this.#deadLetters.close(), END_WHILE_AWAY_MS, 'the end of the dead letters').catch(() => {});
    ignore();
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
      lag: this.#stalledLag ?? this.#lags.total(this.#partitions.owned),
      lastProgressAt: this.#lags.lastProgressAt,
      ...(paused === undefined ? {} : { paused }),
      counters: { ...this.#counters },
    };
  }

  /** One consumer's life. Resolves on the signal, rejects when it crashed or stalls; either way nothing is in flight afterwards. */
  async #consume(handler: BatchHandler, signal: AbortSignal): Promise<void> {
    const { topic, group, log } = this.#settings;
    const round = new AbortController();
    const stopping = AbortSignal.any([signal, round.signal]);
    const member = new Member({
      ...this.#settings,
      signal: stopping,
      onError: this.#complain,
      onJoin: (partitions) => {
        this.#joined = true;
        this.#assign(partitions);
      },
    });
    const { view } = member;
    try {
      const clock = await view.clock();
      if (clock !== 'LogAppendTime') log.warn({ topic, clock }, clockWarning(topic, clock));
      const consuming: Consuming = {
        ...{ handler, signal: stopping, view, logClock: clock === 'LogAppendTime' },
        seek: (partition, offset) => member.seek(partition, offset),
      };
      log.info({ topic, group }, 'joining the consumer group');
      await member.start((payload) => this.#onBatch(payload, consuming));
      await Promise.race([member.crashed, this.#lookAround(consuming)]);
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      round.abort(new Error('the consumer ends'));
      await this.#partitions.atRest();
      // What is in flight is finished and committed, then the partitions go to the others.
      await member.end(() => this.#partitions.finish(), this.#away === undefined ? END_MS : END_WHILE_AWAY_MS);
      this.#joined = false;
      this.#assign([]);
    }
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
    this.#stalledLag = undefined;
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
        if (signal.aborted) return;
        this.#away = this.#trouble(error);
        this.#warn({ err: rootCause(error) }, this.#away);
      });
      if (signal.aborted) return;
      const waits = this.#lags.unreadable === undefined && this.#lags.waitsForConsumer(this.#partitions.mine());
      if (!waits || this.#away !== undefined) this.#lastBatchAt = performance.now();
      // Whoever has the partitions now, it is not for this reader to read them.
      if (!waits && this.#joined) this.#stalledLag = undefined;
      const still = performance.now() - this.#lastBatchAt;
      if (still > this.#settings.stallMs) {
        this.#stalledLag = this.#lags.total(this.#partitions.owned);
        throw new Stall(`entries wait and none was read for ${Math.round(still / 1_000)} s`);
      }
      await sleep(LOOK_MS, signal);
    }
  }

  async #look(consuming: Consuming): Promise<void> {
    const { view, signal } = consuming;
    const seen = await withDeadline(view.partitions(), ANSWER_MS, 'a question about the topic');
    const mine = this.#partitions.mine();
    if ([...mine.keys()].some((n) => !seen.has(n))) await view.forget();
    if (this.#joined) this.#lags.see(mine, seen);
    const { unreadable } = this.#lags;
    if (unreadable !== undefined) this.#warn({ reason: unreadable }, 'a partition is held');
    if (this.#joined) this.#away = undefined;
    // Redis away is the handler's trouble, not ours.
    const { client, keys, worker, watch } = this.#settings;
    if (worker !== '') await beat(client, keys, worker).catch(() => {});
    const servers = await serverIds([client, ...watch]).catch(() => []);
    if (signal.aborted) return;
    for (const partition of mine.values()) void partition.look(servers, consuming);
  }

  #trouble(error: unknown): string {
    if (isUnknownTopic(error))
      return `the topic ${this.#settings.topic} does not exist (fuseline kafka create-topic makes it)`;
    return `Kafka cannot be used: ${rootCause(error).message}`;
  }

  readonly #complain = (message: string): void => this.#kafkajs({ message }, 'kafkajs complains');

  #count(name: string, by = 1): void {
    this.#counters[name] = (this.#counters[name] ?? 0) + by;
  }
}
