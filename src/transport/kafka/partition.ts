import type { EachBatchPayload } from 'kafkajs';
import type { RedisClient } from '../../redis/client.js';
import { backoffMs, sleep } from '../../redis/deadline.js';
import type { Keys } from '../../redis/keys.js';
import type { BatchHandler } from '../port.js';
import { decodeRecord } from './decode.js';
import { type LogRecord, logName, readRecord, writeRecord } from './log-record.js';
import type { TopicView } from './topic-view.js';

const SAVE_EVERY_MS = 1_000;

export type PartitionParts = {
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly topic: string;
  readonly partition: number;
  readonly count: (name: string, by?: number) => void;
  readonly warn: (facts: object, message: string) => void;
};

/** What one consumer lends to its partitions. */
export type Consuming = {
  readonly handler: BatchHandler;
  readonly signal: AbortSignal;
  readonly view: TopicView;
  /** Whether entries carry the log's own clock, by which another log can be told from this one. */
  readonly logClock: boolean;
};

/** One partition of the topic: which log it is, how far it was handled, and the batch in hand. Outlives assignments and consumers. */
export class Partition {
  readonly #parts: PartitionParts;
  readonly #name: string;
  #generation = 0;
  /** Whether it was looked, since the last assignment or jump of offsets, that this still is the same log. */
  #checked = false;
  /** The offset after the last one that the handler is done with. */
  #next: bigint | undefined;
  #committed: bigint | undefined;
  #arrivalMs = 0;
  #saved = { at: Number.NEGATIVE_INFINITY, position: -1n };
  #commit: EachBatchPayload['commitOffsetsIfNecessary'] | undefined;
  #round = new AbortController();

  /** Settles when the batch in hand is done with, or given up; never rejects. */
  busy: Promise<void> | undefined;

  constructor(parts: PartitionParts) {
    this.#parts = parts;
    this.#name = logName(parts.topic, parts.partition);
  }

  get name(): string {
    return `${this.#name}/${Math.max(1, this.#generation)}`;
  }

  get next(): bigint | undefined {
    return this.#next;
  }

  /** It is this consumer's from now on; somebody else may have read on meanwhile. */
  assign(): void {
    this.#round = new AbortController();
    this.#checked = false;
    this.#next = undefined;
    this.#committed = undefined;
  }

  /** It is somebody else's: what is in hand is not worth finishing. */
  lose(): void {
    this.#round.abort(new Error('the partition was given to another worker'));
  }

  /** The log ends before what was read of it: it is another one, to be looked at with the next batch. */
  doubt(): void {
    this.#checked = false;
  }

  /**
   * Hands a batch over until it is taken, then commits. Never rejects; what was given up is read again. `onRefused` is called as soon as
   * it is clear that this may take long.
   */
  take(payload: EachBatchPayload, consuming: Consuming, onRefused: () => void): Promise<void> {
    const signal = AbortSignal.any([consuming.signal, this.#round.signal]);
    this.busy = this.#work(payload, consuming, signal, onRefused)
      .catch((error: unknown) => {
        if (signal.aborted) return;
        this.#parts.warn({ partition: this.name, err: error }, 'a batch was given up; it is read again');
      })
      .finally(() => {
        this.busy = undefined;
      });
    return this.busy;
  }

  /** Commits and notes what was handled and is not yet committed, as far as brokers and Redis can be reached. Never rejects. */
  async finish(): Promise<void> {
    if (this.#next !== undefined && this.#next !== this.#committed) await this.#commitTo(this.#next).catch(() => {});
    await this.#save().catch(() => {});
  }

  async #work(
    { batch, ...payload }: EachBatchPayload,
    consuming: Consuming,
    signal: AbortSignal,
    onRefused: () => void,
  ): Promise<void> {
    const { count, warn } = this.#parts;
    const first = BigInt(batch.messages[0]!.offset);
    this.#commit = payload.commitOffsetsIfNecessary;
    if (this.#next !== undefined && first !== this.#next) this.#checked = false;
    for (let attempt = 0; !this.#checked; attempt += 1) {
      try {
        await this.#check(first, consuming);
      } catch (error) {
        onRefused();
        warn({ partition: this.name, err: error }, 'a partition cannot be begun; trying again');
        await sleep(backoffMs(attempt), signal);
        if (signal.aborted) throw signal.reason;
      }
    }
    const entries = batch.messages.map(decodeRecord);
    count('entries_read', entries.length);
    for (let attempt = 0; ; attempt += 1) {
      try {
        await consuming.handler({ partition: this.name, entries }, signal);
        break;
      } catch (error) {
        if (signal.aborted) throw error;
        onRefused();
        count('redeliveries');
        warn({ partition: this.name, err: error }, 'a batch could not be handled; handing it over again');
        await sleep(backoffMs(attempt), signal);
        if (signal.aborted) throw error;
      }
    }
    const last = batch.messages.at(-1)!.offset;
    for (const { arrivalMs } of entries) if (arrivalMs > this.#arrivalMs) this.#arrivalMs = arrivalMs;
    // Markers of transactions lie behind the last entry that we see.
    const end = BigInt(batch.lastOffset());
    this.#next = (end > BigInt(last) ? end : BigInt(last)) + 1n;
    if (this.#round.signal.aborted) return;
    payload.resolveOffset(last);
    try {
      await this.#commitTo(this.#next);
    } catch (error) {
      // It is handled: the next commit covers it, and if it is read again before, the fence knows it.
      count('commit_failures');
      warn({ partition: this.name, err: error }, 'a position could not be committed; the next commit covers it');
    }
    if (performance.now() - this.#saved.at >= SAVE_EVERY_MS) await this.#save().catch(() => {});
  }

  async #commitTo(offset: bigint): Promise<void> {
    const { topic, partition, count } = this.#parts;
    const position = { partition, offset: String(offset) };
    await this.#commit?.({ topics: [{ topic, partitions: [position] }] });
    this.#committed = offset;
    count('commits');
  }

  /**
   * Looks whether this is the log that was read before: after an assignment, and whenever offsets jump. A log that ends before the
   * position noted, or whose entries before that position came later than any that were read, was deleted and made again.
   */
  async #check(first: bigint, { view, logClock }: Consuming): Promise<void> {
    const { client, keys, partition, count, warn } = this.#parts;
    const record = await readRecord(client, keys, this.#name);
    const now = (await view.partitions()).get(partition);
    if (now === undefined) {
      await view.forget();
      throw new Error('the brokers do not tell of it yet');
    }
    const isAnother = record !== undefined && (await isAnotherLog(record, partition, now.high, view, logClock));
    this.#generation = (record?.generation ?? 1) + (isAnother ? 1 : 0);
    this.#arrivalMs = isAnother ? 0 : (record?.arrivalMs ?? 0);
    if (isAnother || record === undefined) {
      const position = isAnother ? '0' : String(first);
      await writeRecord(client, keys, this.#name, {
        generation: this.#generation,
        position,
        arrivalMs: this.#arrivalMs,
      });
    }
    if (isAnother) {
      count('position_resets');
      warn({ partition: this.name }, 'this partition was deleted and made again: its entries count as new');
    } else {
      const expected = this.#next ?? now.committed;
      if (expected !== undefined && first > expected && now.low > expected) {
        count('entries_lost_to_cap', Number((now.low < first ? now.low : first) - expected));
        warn({ partition: this.name, expected: String(expected), first: String(first) }, 'entries were deleted unread');
      }
    }
    this.#checked = true;
  }

  /** Only has to tell another log from this one, so it may lie behind. */
  async #save(): Promise<void> {
    const position = this.#committed;
    if (!this.#checked || position === undefined || position === this.#saved.position) return;
    const { client, keys } = this.#parts;
    this.#saved = { at: performance.now(), position };
    const record = { generation: this.#generation, position: String(position), arrivalMs: this.#arrivalMs };
    await writeRecord(client, keys, this.#name, record);
  }
}

async function isAnotherLog(
  record: LogRecord,
  partition: number,
  high: bigint,
  view: TopicView,
  logClock: boolean,
): Promise<boolean> {
  const position = BigInt(record.position);
  if (high < position) return true;
  if (!logClock || record.arrivalMs === 0) return false;
  const after = (await view.firstAfter(record.arrivalMs)).get(partition);
  return after !== undefined && after < position;
}
