import type { Admin, Kafka, Producer } from 'kafkajs';
import type { DeadLetter } from '../port.js';
import { isUnknownTopic } from './client.js';
import { deadTopic } from './options.js';
import { createDeadTopic } from './topic.js';

const REASON_MAX = 2_000;

/**
 * Appends to `<topic>.dead`, which is made if it is missing: the raw text as value, where it came from and why as headers. A batch that is
 * read again appends again: partition, position and index tell that it is the same.
 */
export class DeadLetters {
  readonly #kafka: Kafka;
  readonly #topic: string;
  #producer: Promise<Producer> | undefined;
  /** Letters on their way: whoever lost patience and asks again gets the answer to the first. */
  readonly #pending = new Map<string, Promise<void>>();

  constructor(kafka: Kafka, topic: string) {
    this.#kafka = kafka;
    this.#topic = topic;
  }

  /** Resolves when the topic has it. @throws what the brokers answer */
  append(letter: DeadLetter): Promise<void> {
    const id = `${letter.partition} ${letter.position} ${letter.index}`;
    const pending = this.#pending.get(id);
    if (pending) return pending;
    const sending = this.#send(letter).finally(() => this.#pending.delete(id));
    this.#pending.set(id, sending);
    return sending;
  }

  async close(): Promise<void> {
    const producer = await this.#producer?.catch(() => undefined);
    this.#producer = undefined;
    await producer?.disconnect().catch(() => {});
  }

  async #send({ reason, partition, position, index, raw }: DeadLetter): Promise<void> {
    const headers = { v: '1', reason: reason.slice(0, REASON_MAX), partition, position, index: String(index) };
    const message = { key: partition, value: raw, headers };
    try {
      this.#producer ??= this.#open();
      const producer = await this.#producer;
      await producer.send({ topic: deadTopic(this.#topic), acks: -1, messages: [message] });
    } catch (error) {
      // An idempotent producer that gave up is not used again.
      await this.close();
      if (isUnknownTopic(error)) await this.#makeTopic();
      throw error;
    }
  }

  async #open(): Promise<Producer> {
    const producer = this.#kafka.producer({
      idempotent: true,
      maxInFlightRequests: 1,
      allowAutoTopicCreation: false,
      createPartitioner: () => () => 0,
    });
    await producer.connect();
    return producer;
  }

  async #makeTopic(): Promise<void> {
    const admin: Admin = this.#kafka.admin();
    try {
      await admin.connect();
      await createDeadTopic(admin, this.#topic);
    } finally {
      await admin.disconnect().catch(() => {});
    }
  }
}
