import { randomBytes } from 'node:crypto';
import type { Consumer, EachBatchPayload } from 'kafkajs';
import type { LogEntry } from '../port.js';
import { openKafka, withAdmin } from './client.js';
import { decodeRecord } from './decode.js';
import { logName } from './log-record.js';
import type { KafkaConnection } from './options.js';

/** Entries that arrived from `fromMs` on, before `toMs`. Either may be infinite. */
export type Range = { readonly fromMs: number; readonly toMs: number };

export type TopicRange = {
  readonly partitions: readonly { readonly partition: string; readonly entries: AsyncIterable<readonly LogEntry[]> }[];
  /** Leaves nothing behind: no consumer, no group. */
  close(): Promise<void>;
};

type Bounds = { readonly n: number; readonly from: bigint; readonly to: bigint };

const IMPATIENT = { initialRetryTime: 200, retries: 4 };
/** Records that wait for their turn, in each partition. */
const WAITING_MOST = 5_000;
/** Nothing comes for so long: what is missing are no records (marks of transactions), or can no longer be had. */
const QUIET_MS = 15_000;

/**
 * What a topic holds of a time, partition by partition. Read by a group that nobody else is in, that commits nothing and is deleted.
 * A topic that is written to ends at the instant of the call. `onQuiet` hears of a partition that ended before its last offset.
 *
 * @throws what the brokers answer
 */
export async function readTopicRange(
  connection: KafkaConnection,
  topic: string,
  range: Range,
  onQuiet: (sentence: string) => void,
): Promise<TopicRange> {
  const bounds = await withAdmin({ ...connection, retry: IMPATIENT }, async (admin) => {
    const ends = await admin.fetchTopicOffsets(topic);
    const at = async (ms: number) =>
      new Map((await admin.fetchTopicOffsetsByTimestamp(topic, ms)).map((one) => [one.partition, BigInt(one.offset)]));
    const first = range.fromMs > 0 ? await at(Math.ceil(range.fromMs)) : undefined;
    const last = Number.isFinite(range.toMs) ? await at(Math.ceil(range.toMs)) : undefined;
    return ends.map(({ partition: n, low, high }): Bounds => {
      const [from, to] = [first?.get(n) ?? BigInt(low), last?.get(n) ?? BigInt(high)];
      return { n, from: from < BigInt(low) ? BigInt(low) : from, to: to < BigInt(high) ? to : BigInt(high) };
    });
  });
  const queues = new Map(bounds.map((one) => [one.n, new Queue(one, onQuiet)]));
  const groupId = `fuseline-replay-${randomBytes(8).toString('hex')}`;
  const consumer = bounds.some(({ from, to }) => from < to)
    ? await consume(connection, topic, groupId, queues)
    : undefined;
  return {
    partitions: bounds.map(({ n }) => ({ partition: logName(topic, n), entries: queues.get(n)!.read() })),
    async close() {
      await consumer?.disconnect().catch(() => {});
      if (consumer !== undefined)
        await withAdmin({ ...connection, retry: IMPATIENT }, (admin) => admin.deleteGroups([groupId])).catch(() => {});
    },
  };
}

async function consume(
  connection: KafkaConnection,
  topic: string,
  groupId: string,
  queues: ReadonlyMap<number, Queue>,
): Promise<Consumer> {
  const kafka = openKafka({ ...connection, retry: IMPATIENT });
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 200, allowAutoTopicCreation: false });
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    for (const queue of queues.values()) queue.fail(payload.error);
  });
  try {
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      eachBatch: async (payload) => queues.get(payload.batch.partition)?.take(payload),
    });
    for (const [partition, { bounds }] of queues) {
      if (bounds.from < bounds.to) consumer.seek({ topic, partition, offset: String(bounds.from) });
      else consumer.pause([{ topic, partitions: [partition] }]);
    }
  } catch (error) {
    await consumer.disconnect().catch(() => {});
    throw error;
  }
  return consumer;
}

/** One partition's records on their way from the consumer to whoever reads them. */
class Queue {
  readonly bounds: Bounds;
  readonly #onQuiet: (sentence: string) => void;
  #waiting: LogEntry[] = [];
  #next: bigint;
  #resume: (() => void) | undefined;
  #wake: (() => void) | undefined;
  #error: Error | undefined;

  constructor(bounds: Bounds, onQuiet: (sentence: string) => void) {
    this.bounds = bounds;
    this.#onQuiet = onQuiet;
    this.#next = bounds.from;
  }

  take({ batch, resolveOffset, pause, isStale }: EachBatchPayload): void {
    if (isStale()) return;
    for (const message of batch.messages) {
      const offset = BigInt(message.offset);
      if (offset < this.#next || offset >= this.bounds.to) continue;
      this.#waiting.push(decodeRecord(message));
      this.#next = offset + 1n;
    }
    // Offsets that hold no records, as at the end of a transaction, are part of a batch that was read.
    const after = BigInt(batch.lastOffset()) + 1n;
    if (after > this.#next && batch.messages.length > 0) this.#next = after;
    resolveOffset(batch.lastOffset());
    if (this.#isOver || this.#waiting.length >= WAITING_MOST) this.#resume = pause();
    this.#wake?.();
  }

  fail(error: Error): void {
    this.#error = error;
    this.#wake?.();
  }

  async *read(): AsyncGenerator<readonly LogEntry[]> {
    for (;;) {
      const some = this.#waiting;
      this.#waiting = [];
      if (some.length > 0) yield some;
      else if (this.#error !== undefined) throw this.#error;
      else if (this.#isOver) return;
      else if (!(await this.#more())) return;
    }
  }

  get #isOver(): boolean {
    return this.#next >= this.bounds.to;
  }

  /** False: nothing came for a long while. */
  async #more(): Promise<boolean> {
    this.#resume?.();
    this.#resume = undefined;
    let timer: NodeJS.Timeout | undefined;
    const came = await new Promise<boolean>((resolve) => {
      this.#wake = () => resolve(true);
      timer = setTimeout(resolve, QUIET_MS, false);
    });
    clearTimeout(timer);
    this.#wake = undefined;
    const { n, to } = this.bounds;
    if (!came)
      this.#onQuiet(`partition ${n}: offsets ${this.#next} to ${to - 1n} did not come within ${QUIET_MS / 1_000} s`);
    return came;
  }
}
