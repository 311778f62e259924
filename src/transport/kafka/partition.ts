import type { EachBatchPayload } from 'kafkajs';
import { backoffMs, sleep } from '../../redis/deadline.js';
import type { LogEntry } from '../port.js';
import type { Consuming, PartitionParts } from './consuming.js';
import { decodeRecord } from './decode.js';
import { KnownLog } from './known-log.js';
import { unlessAborted } from './unless-aborted.js';

/** Records handed over together: a fetch holds up to 20,000, and all that is made of them would wait in memory for the last answer. */
const AT_ONCE = 2_000;
const SAVE_EVERY_MS = 1_000;

/** One partition of the topic: how far it was handled, and the batch in hand. Outlives assignments and consumers. */
export class Partition {
  readonly #parts: PartitionParts;
  readonly #log: KnownLog;
  /** Whether it was looked, since the last assignment or jump of offsets, that this still is the same log. */
  #checked = false;
  /** Whether other Redis servers may answer than those that were asked last. */
  #unsure = false;
  /** The offset after the last one that the handler is done with. */
  #next: bigint | undefined;
  #committed: bigint | undefined;
  /** Everything below was read before a failover of Redis, and is read again. */
  #readAgainTo: bigint | undefined;
  #savedAt = Number.NEGATIVE_INFINITY;
  #commit: EachBatchPayload['commitOffsetsIfNecessary'] | undefined;
  #round = new AbortController();

  /** Settles when what is in hand is done with, or given up; never rejects. */
  busy: Promise<void> | undefined;

  constructor(parts: PartitionParts) {
    this.#parts = parts;
    this.#log = new KnownLog(parts);
  }

  get name(): string {
    return this.#log.name;
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
    this.#readAgainTo = undefined;
  }

  /** It is somebody else's: what is in hand is not worth finishing. */
  lose(): void {
    this.#round.abort(new Error('the partition was given to another worker'));
  }

  /** The log ends before what was read of it: it is another one, to be looked at with the next batch. */
  doubt(): void {
    this.#checked = false;
  }

  /** Another Redis server may answer from now on: not to be handed what comes next before all that it never saw. */
  doubtServers(): void {
    this.#unsure = true;
  }

  /**
   * Hands a batch over until it is taken, then commits. Never rejects; what was given up is read again. `onRefused` is called as soon as
   * it is clear that this may take long.
   */
  take(payload: EachBatchPayload, consuming: Consuming, onRefused: () => void): Promise<void> {
    return this.#busyWith(consuming, (signal) => this.#work(payload, consuming, signal, onRefused));
  }

  /** Goes back if one of these servers, which answer now, was not known: a read that waits would never notice. Never rejects. */
  async look(servers: readonly string[], consuming: Consuming): Promise<void> {
    if (this.busy !== undefined || !this.#checked || !this.#log.isFailover(servers)) return;
    await this.#busyWith(consuming, async () => void (await this.#goBack(servers, consuming)));
  }

  /** Commits and notes what was handled and is not yet committed, as far as brokers and Redis can be reached. Never rejects. */
  async finish(): Promise<void> {
    if (this.#next !== undefined) await this.#commitTo(this.#next).catch(() => {});
    if (this.#checked && this.#committed !== undefined) await this.#log.save(this.#committed).catch(() => {});
  }

  #busyWith(consuming: Consuming, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const signal = AbortSignal.any([consuming.signal, this.#round.signal]);
    this.busy = work(signal)
      .catch((error: unknown) => {
        if (signal.aborted) return;
        this.#parts.warn({ partition: this.name, err: error }, 'a batch was given up; it is read again');
      })
      .finally(() => {
        this.busy = undefined;
      });
    return this.busy;
  }

  async #work(
    { batch, ...payload }: EachBatchPayload,
    consuming: Consuming,
    signal: AbortSignal,
    onRefused: () => void,
  ): Promise<void> {
    const { count, warn } = this.#parts;
    // Read before it was decided to read on elsewhere.
    if (payload.isStale()) return;
    const first = BigInt(batch.messages[0]!.offset);
    this.#commit = payload.commitOffsetsIfNecessary;
    if (this.#next !== undefined && first !== this.#next) this.#checked = false;
    for (let attempt = 0; !this.#checked; attempt += 1) {
      try {
        if (!(await this.#check(first, consuming))) return;
      } catch (error) {
        onRefused();
        warn({ partition: this.name, err: error }, 'a partition cannot be begun; trying again');
        await sleep(backoffMs(attempt), signal);
        if (signal.aborted) throw signal.reason;
      }
    }
    for (let from = 0; from < batch.messages.length; from += AT_ONCE) {
      const entries = batch.messages.slice(from, from + AT_ONCE).map(decodeRecord);
      count('entries_read', entries.length);
      if (!(await this.#handOver(entries, consuming, signal, onRefused))) return;
    }
    const last = batch.messages.at(-1)!.offset;
    // Markers of transactions lie behind the last entry that we see.
    const end = BigInt(batch.lastOffset());
    this.#next = (end > BigInt(last) ? end : BigInt(last)) + 1n;
    if (this.#readAgainTo !== undefined && this.#next >= this.#readAgainTo) {
      this.#readAgainTo = undefined;
      this.#log.readAgain();
    }
    if (this.#round.signal.aborted) return;
    payload.resolveOffset(last);
    try {
      await unlessAborted(this.#commitTo(this.#next), signal);
    } catch (error) {
      // At the end there is one more try, with a deadline of its own.
      if (signal.aborted) return;
      // It is handled: the next commit covers it, and if it is read again before, the fence knows it.
      count('commit_failures');
      warn({ partition: this.name, err: error }, 'a position could not be committed; the next commit covers it');
    }
    await this.#saveIfDue();
  }

  /** Again and again until it is taken. False: after a failover it must not be, what lies before it comes again first. */
  async #handOver(
    entries: readonly LogEntry[],
    consuming: Consuming,
    signal: AbortSignal,
    onRefused: () => void,
  ): Promise<boolean> {
    const { count, warn } = this.#parts;
    for (let attempt = 0; ; attempt += 1) {
      try {
        if (this.#unsure) {
          this.#unsure = false;
          const servers = await this.#log.serversNow();
          if (this.#log.isFailover(servers)) return await this.#goBack(servers, consuming).then(() => false);
        }
        await consuming.handler({ partition: this.name, entries }, signal);
        break;
      } catch (error) {
        this.#unsure = true;
        if (signal.aborted) throw error;
        onRefused();
        count('redeliveries');
        warn({ partition: this.name, err: error }, 'a batch could not be handled; handing it over again');
        await sleep(backoffMs(attempt), signal);
        if (signal.aborted) throw error;
      }
    }
    for (const { arrivalMs } of entries) this.#log.note(arrivalMs);
    return true;
  }

  /** Only forward: what is read again was committed before. */
  async #commitTo(offset: bigint): Promise<void> {
    if (this.#committed !== undefined && offset <= this.#committed) return;
    const { topic, partition, count } = this.#parts;
    await this.#commit?.({ topics: [{ topic, partitions: [{ partition, offset: String(offset) }] }] });
    this.#committed = offset;
    count('commits');
  }

  /** Not worth a failure: the next one comes in a second. */
  async #saveIfDue(): Promise<void> {
    if (this.#committed === undefined || performance.now() - this.#savedAt < SAVE_EVERY_MS) return;
    this.#savedAt = performance.now();
    await this.#log.save(this.#committed).catch(() => {});
  }

  /** After an assignment, and whenever offsets jump. False: it is read on elsewhere, this batch is not to be handed over. */
  async #check(first: bigint, consuming: Consuming): Promise<boolean> {
    const { partition, count, tell } = this.#parts;
    const { view, logClock, seek } = consuming;
    const now = (await view.partitions()).get(partition);
    if (now === undefined) {
      await view.forget();
      throw new Error('the brokers do not tell of it yet');
    }
    const found = await this.#log.open(now.high, view, logClock);
    // kafkajs has put a committed offset that is out of range back to the beginning by now.
    const expected = this.#next ?? now.committed ?? this.#log.position;
    this.#checked = true;
    if (found === 'another') {
      count('position_resets');
      tell({ partition: this.name }, 'this partition was deleted and made again: its entries count as new');
      this.#committed = undefined;
      this.#next = undefined;
      await this.#log.save(0n);
      if (first <= now.low) return true;
      seek(partition, now.low);
      return false;
    }
    if (expected !== undefined && first > expected && now.low > expected) {
      count('entries_lost_to_cap', Number((now.low < first ? now.low : first) - expected));
      tell({ partition: this.name, expected: String(expected), first: String(first) }, 'entries were deleted unread');
    }
    if (found === 'new') await this.#log.save(first);
    this.#committed ??= now.committed;
    this.#next = first;
    const servers = await this.#log.serversNow();
    if (!this.#log.isFailover(servers)) {
      this.#log.meet(servers);
      return true;
    }
    return !(await this.#goBack(servers, consuming));
  }

  /** Reads again what a promoted replica may never have seen; the fence knows what it has. Resolves to whether there is any. */
  async #goBack(servers: readonly string[], { view, seek }: Consuming): Promise<boolean> {
    const { partition, count, tell } = this.#parts;
    const from = await this.#log.rewindOffset(view);
    this.#log.meet(servers);
    if (from === undefined || this.#next === undefined || from >= this.#next) return false;
    count('rewinds');
    tell({ partition: this.name, from: String(from) }, 'another Redis server answers: going back to read again');
    if (this.#readAgainTo === undefined || this.#next > this.#readAgainTo) this.#readAgainTo = this.#next;
    this.#next = from;
    seek(partition, from);
    return true;
  }
}
