import type { Admin, Kafka } from 'kafkajs';
import { openKafka } from './client.js';
import type { KafkaConnection } from './options.js';
import { type Clock, clockOf } from './topic.js';
import { unlessAborted } from './unless-aborted.js';

/** One partition as the brokers tell it, offsets as in Kafka: `low` is the first entry kept, `high` the next one to be written. */
export type PartitionView = {
  readonly low: bigint;
  readonly high: bigint;
  /** The group's committed offset: the next one to read; `undefined` without one. */
  readonly committed: bigint | undefined;
};

/** Entries that the group has not committed and that are still kept. */
export function waiting({ low, high, committed }: PartitionView): bigint {
  const from = committed === undefined || committed < low ? low : committed;
  return high > from ? high - from : 0n;
}

/** Questions about a topic and a group, over a connection of their own. Once the signal is aborted nobody waits for an answer. */
export class TopicView {
  readonly #kafka: Kafka;
  readonly #topic: string;
  readonly #group: string;
  readonly #signal: AbortSignal | undefined;
  #admin: Promise<Admin> | undefined;

  constructor(kafka: Kafka, topic: string, group: string, signal?: AbortSignal) {
    this.#kafka = kafka;
    this.#topic = topic;
    this.#group = group;
    this.#signal = signal;
  }

  /** All partitions by number. @throws what the brokers answer */
  async partitions(): Promise<Map<number, PartitionView>> {
    return this.#ask(async (admin) => {
      const [ends, groups] = await Promise.all([
        admin.fetchTopicOffsets(this.#topic),
        admin.fetchOffsets({ groupId: this.#group, topics: [this.#topic] }),
      ]);
      const committed = new Map(groups[0]?.partitions.map(({ partition, offset }) => [partition, BigInt(offset)]));
      return new Map(
        ends.map(({ partition, low, high }) => {
          const offset = committed.get(partition) ?? -1n;
          return [partition, { low: BigInt(low), high: BigInt(high), committed: offset < 0n ? undefined : offset }];
        }),
      );
    });
  }

  /** Per partition the first offset whose entry arrived after `afterMs`, or the end. @throws what the brokers answer */
  async firstAfter(afterMs: number): Promise<Map<number, bigint>> {
    return this.#ask(async (admin) => {
      const found = await admin.fetchTopicOffsetsByTimestamp(this.#topic, afterMs + 1);
      return new Map(found.map(({ partition, offset }) => [partition, BigInt(offset)]));
    });
  }

  clock(): Promise<Clock> {
    return this.#ask((admin) => clockOf(admin, this.#topic));
  }

  /** What is known about partitions and their leaders is old: the next question opens a new connection, which asks. */
  async forget(): Promise<void> {
    const admin = this.#admin;
    this.#admin = undefined;
    await admin?.then((one) => one.disconnect()).catch(() => {});
  }

  #ask<T>(question: (admin: Admin) => Promise<T>): Promise<T> {
    const answer = this.#answer(question);
    return this.#signal === undefined ? answer : unlessAborted(answer, this.#signal);
  }

  async #answer<T>(question: (admin: Admin) => Promise<T>): Promise<T> {
    this.#admin ??= this.#open();
    try {
      return await question(await this.#admin);
    } catch (error) {
      await this.forget();
      throw error;
    }
  }

  async #open(): Promise<Admin> {
    const admin = this.#kafka.admin();
    await admin.connect();
    return admin;
  }
}

/** How many partitions a topic has, and how many entries of it a group has not committed. @throws what the brokers answer */
export async function topicLag(
  connection: KafkaConnection,
  topic: string,
  group: string,
): Promise<{ partitions: number; lag: number }> {
  const view = new TopicView(openKafka({ ...connection, retry: { initialRetryTime: 200, retries: 2 } }), topic, group);
  try {
    const all = [...(await view.partitions()).values()];
    return { partitions: all.length, lag: Number(all.reduce((sum, one) => sum + waiting(one), 0n)) };
  } finally {
    await view.forget();
  }
}
