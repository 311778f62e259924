import type { Socket } from 'node:net';
import type { Consumer, EachBatchHandler } from 'kafkajs';
import { withDeadline } from '../../redis/deadline.js';
import { openKafka } from './client.js';
import { beginFetch, registerCodecs } from './codecs.js';
import type { KafkaConnection } from './options.js';
import { TopicView } from './topic-view.js';
import { unlessAborted } from './unless-aborted.js';

/** Often, because it is how a worker hears that another one left. */
const HEARTBEAT_MS = 500;
/** New partitions are noticed within it. */
const METADATA_MS = 10_000;
const SIDE_BY_SIDE = 64;
/**
 * Of one partition in one answer. Twice the default: what comes once an answer (the way there and back, the commit, the end of the last
 * script) was a fifth of the time of records with 100 outcomes each. More gains little, and would be read again after a crash.
 */
const PARTITION_BYTES = 2 * 1_048_576;

export type MemberOptions = KafkaConnection & {
  readonly topic: string;
  readonly group: string;
  /** A member that is not heard of for so long is taken for dead. Brokers take 6 s at least, unless told otherwise. */
  readonly sessionMs: number;
  readonly onError: (message: string) => void;
  /** Partitions, by number, that the group gave to this member. */
  readonly onJoin: (partitions: readonly number[]) => void;
  /** When it is aborted, nobody waits for an answer of the brokers any more. */
  readonly signal: AbortSignal;
};

/** One kafkajs consumer from its connection to its end, which is for good: nothing of it joins or reads after that. */
export class Member {
  readonly view: TopicView;
  /** Rejects when kafkajs gives this consumer up. */
  readonly crashed: Promise<never>;
  readonly #consumer: Consumer;
  readonly #topic: string;
  readonly #signal: AbortSignal;
  readonly #sockets = new Set<Socket>();
  #isOver = false;

  constructor({ topic, group, sessionMs, signal, onJoin, ...connection }: MemberOptions) {
    this.#topic = topic;
    this.#signal = signal;
    registerCodecs();
    const kafka = openKafka({ ...connection, onSocket: (socket) => this.#watch(socket) });
    this.view = new TopicView(kafka, topic, group, signal);
    this.#consumer = kafka.consumer({
      groupId: group,
      sessionTimeout: sessionMs,
      rebalanceTimeout: 30_000,
      heartbeatInterval: HEARTBEAT_MS,
      maxWaitTimeInMs: HEARTBEAT_MS,
      maxBytesPerPartition: PARTITION_BYTES,
      metadataMaxAge: METADATA_MS,
      allowAutoTopicCreation: false,
      // The reader makes a new consumer itself, with its own back-off.
      retry: { initialRetryTime: 200, maxRetryTime: 5_000, retries: 6, restartOnFailure: async () => false },
    });
    const { events } = this.#consumer;
    this.crashed = new Promise<never>((_resolve, reject) => {
      this.#consumer.on(events.CRASH, ({ payload }) => reject(payload.error));
    });
    this.crashed.catch(() => {});
    this.#consumer.on(events.GROUP_JOIN, ({ payload }) => {
      if (!signal.aborted) onJoin(payload.memberAssignment[topic] ?? []);
    });
    this.#consumer.on(events.FETCH_START, beginFetch);
  }

  /** Resolves when it has joined, or crashed trying. @throws what the brokers answer, or the signal's reason */
  start(eachBatch: EachBatchHandler): Promise<void> {
    const steps = [
      () => this.#consumer.connect(),
      () => this.#consumer.subscribe({ topics: [this.#topic], fromBeginning: true }),
      () =>
        this.#consumer.run({
          autoCommit: false,
          eachBatchAutoResolve: false,
          partitionsConsumedConcurrently: SIDE_BY_SIDE,
          eachBatch,
        }),
    ];
    const all = async () => {
      for (const step of steps) if (!this.#signal.aborted) await step();
    };
    return unlessAborted(all(), this.#signal);
  }

  seek(partition: number, offset: bigint): void {
    this.#consumer.seek({ topic: this.#topic, partition, offset: String(offset) });
  }

  /**
   * Runs `lastly`, says goodbye, and cuts whatever has not ended within `ms`: kafkajs waits for answers that may never come, and a consumer
   * that was joining would go on joining. Never rejects.
   */
  async end(lastly: () => Promise<void>, ms: number): Promise<void> {
    const goodbye = async () => {
      await lastly();
      await Promise.all([this.#consumer.disconnect(), this.view.forget()]);
    };
    await withDeadline(goodbye(), ms, 'the end of the consumer').catch(() => {});
    this.#isOver = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  #watch(socket: Socket): void {
    if (this.#isOver) {
      socket.destroy();
      throw new Error('this consumer has ended');
    }
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
  }
}
