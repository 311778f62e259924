import type { OutcomeInput } from '../domain/outcome.js';
import { backoffMs } from '../redis/deadline.js';
import type { LogWriter, QueuedOutcome, SendResult } from '../transport/port.js';
import { OutcomeBuffer } from './buffer.js';
import { bytesOf, readOutcome } from './read-outcome.js';
import { type TrackOptions, track } from './track.js';
import { WakeUp } from './wake-up.js';

/**
 * Why an outcome never reached the log.
 *
 * - `invalid`: not an outcome; the third argument of `onDrop` says which rule it broke.
 * - `buffer-full`: the log was away or slow for too long; the oldest go first.
 * - `closed`: published after `close()`. `shutdown`: still waiting when `close()` had no more time.
 */
export type DropReason = 'invalid' | 'buffer-full' | 'closed' | 'shutdown';

export type PublisherSettings = {
  writer: LogWriter;
  /** Longest time that a failure, or a third party's wish to wait, waits for others to go with it; default 5 ms. */
  batchMs?: number;
  /** The same for good outcomes, which nobody waits for; default 25 ms. Never less than `batchMs`. */
  quietBatchMs?: number;
  /** Most outcomes in one send; default 500. */
  batchSize?: number;
  /** Most outcomes that wait, those being sent included; default 100,000. */
  maxBuffered?: number;
  /** Most memory that they take, in bytes (estimated); default 16 MiB. */
  maxBufferedBytes?: number;
  /** For outcomes that name no source of their own: host and service. */
  source?: string;
  /** Called with what was handed to `publish`, or what became of it; may throw, which changes nothing. */
  onDrop?: (outcome: unknown, reason: DropReason, detail: string) => void;
  /** Run at the end of `close()`. */
  onClose?: () => Promise<void>;
};

/**
 * Monotonic, but for `buffered`. `published = sent + unknown + dropped['buffer-full'] + dropped.shutdown + buffered`.
 *
 * - `unknown`: sent without an answer. Never sent again: the log would hold them twice.
 */
export type PublisherCounts = {
  readonly published: number;
  readonly sent: number;
  readonly unknown: number;
  readonly buffered: number;
  readonly dropped: Readonly<Record<DropReason, number>>;
};

export type Publisher<Channel extends string = string> = {
  /** Returns at once and never throws, whatever it is given. What is wrong is counted, and told to `onDrop`. */
  publish(outcome: OutcomeInput<Channel>): void;
  /** As `publish`, for those who have just read `performance.now()`: on some machines the clock is dearer than all the rest. */
  publishAt(outcome: OutcomeInput<Channel>, nowMs: number): void;
  /** Runs a call and publishes how it ended; see {@link track} for what counts, and where to put it around retries. */
  track<T>(channel: Channel, fn: () => T, options: TrackOptions<Awaited<T>>): T;
  /** Resolves to true when everything published before has left, to false when the time (default 5 s) is up. Never rejects. */
  flush(options?: { timeoutMs?: number }): Promise<boolean>;
  /** Flushes, drops the rest, and closes what the publisher opened. May be called twice. Never rejects. */
  close(options?: { timeoutMs?: number }): Promise<void>;
  counts(): PublisherCounts;
  /** What the log said to the last send that did not go through; `undefined` after one that did. */
  lastError(): Error | undefined;
};

const FLUSH_MS = 5_000;
/** Longest wait that a timer can be set to. */
const WAIT_MOST_MS = 2 ** 31 - 1;

/** What is no time takes the default. */
const waitOf = (ms: number | undefined, otherwise: number) =>
  ms !== undefined && ms >= 0 ? Math.min(ms, WAIT_MOST_MS) : otherwise;

/** Builds a publisher upon any transport's writer; most want `createPublisher`. The writer stays the caller's to close. */
export function publishTo<Channel extends string = string>(settings: PublisherSettings): Publisher<Channel> {
  return new BufferedPublisher(settings);
}

class BufferedPublisher<Channel extends string> implements Publisher<Channel> {
  readonly #settings: PublisherSettings;
  readonly #batchMs: number;
  readonly #quietBatchMs: number;
  readonly #batchSize: number;
  readonly #buffer: OutcomeBuffer;
  readonly #dropped: Record<DropReason, number> = { invalid: 0, 'buffer-full': 0, closed: 0, shutdown: 0 };
  #published = 0;
  #sent = 0;
  #unknown = 0;
  #taken = { count: 0, bytes: 0 };
  #sending = false;
  #failures = 0;
  /** Whether something waits that others should know of soon. */
  #urgent = false;
  readonly #wakeUp = new WakeUp(() => void this.#send());
  #lastError: Error | undefined;
  #closing: Promise<void> | undefined;
  #closed = false;
  readonly #waiting = new Set<() => void>();

  constructor(settings: PublisherSettings) {
    this.#settings = settings;
    this.#batchMs = waitOf(settings.batchMs, 5);
    this.#quietBatchMs = Math.max(this.#batchMs, waitOf(settings.quietBatchMs, 25));
    this.#batchSize = settings.batchSize ?? 500;
    const { maxBuffered = 100_000, maxBufferedBytes = 16 * 1_048_576 } = settings;
    this.#buffer = new OutcomeBuffer(maxBuffered, maxBufferedBytes, ({ outcome }) =>
      this.#drop(
        outcome,
        'buffer-full',
        `more than ${maxBuffered} outcomes or ${maxBufferedBytes} bytes wait for the log`,
      ),
    );
  }

  publish(outcome: OutcomeInput<Channel>): void {
    this.publishAt(outcome, performance.now());
  }

  publishAt(outcome: OutcomeInput<Channel>, nowMs: number): void {
    const read = this.#closing ? undefined : readOutcome(outcome, this.#settings.source);
    if (read === undefined) this.#drop(outcome, 'closed', 'published after close()');
    else if (typeof read === 'string') this.#drop(outcome, 'invalid', read);
    else {
      this.#published += 1;
      const queuedAt = Number.isFinite(nowMs) ? nowMs : performance.now();
      this.#buffer.push({ outcome: read, queuedAt, bytes: bytesOf(read) }, this.#taken);
      this.#urgent ||= !read.success || read.retryAfterMs !== undefined;
      this.#schedule();
    }
  }

  track<T>(channel: Channel, fn: () => T, options: TrackOptions<Awaited<T>>): T {
    return track((outcome, nowMs) => this.publishAt(outcome as OutcomeInput<Channel>, nowMs), channel, fn, options);
  }

  async flush({ timeoutMs = FLUSH_MS }: { timeoutMs?: number } = {}): Promise<boolean> {
    // Counted, not "until empty": under a steady load the buffer never is.
    const target = this.#published;
    const done = () => this.#settled() >= target;
    if (done()) return true;
    // Not around the back-off: whoever flushes after each request must not hammer a log that is away.
    if (!this.#sending && this.#failures === 0) this.#wakeUp.soon();
    return await new Promise<boolean>((resolve) => {
      const end = (all: boolean) => {
        clearTimeout(timer);
        this.#waiting.delete(look);
        resolve(all);
      };
      const look = () => {
        if (done()) end(true);
      };
      // Not unref'd: whoever waits for a flush wants the process to live that long.
      const timer = setTimeout(() => end(false), Math.max(0, timeoutMs));
      this.#waiting.add(look);
    });
  }

  close(options?: { timeoutMs?: number }): Promise<void> {
    this.#closing ??= this.#end(options);
    return this.#closing;
  }

  counts(): PublisherCounts {
    return {
      published: this.#published,
      sent: this.#sent,
      unknown: this.#unknown,
      buffered: this.#buffer.size + this.#taken.count,
      dropped: { ...this.#dropped },
    };
  }

  lastError(): Error | undefined {
    return this.#lastError;
  }

  async #end(options: { timeoutMs?: number } | undefined): Promise<void> {
    await this.flush(options);
    this.#closed = true;
    this.#wakeUp.clear();
    this.#dropRest();
    await this.#settings.onClose?.().catch(() => {});
  }

  #dropRest(): void {
    for (const { outcome } of this.#buffer.take(Number.POSITIVE_INFINITY)) {
      this.#drop(outcome, 'shutdown', 'close() had no more time for it');
    }
  }

  /** Everything published that is neither waiting nor being sent. */
  #settled(): number {
    return this.#sent + this.#unknown + this.#dropped['buffer-full'] + this.#dropped.shutdown;
  }

  #schedule(): void {
    if (this.#sending) return;
    // While the log is away only the back-off's timer sends: a full batch must not turn into a hot loop.
    if (this.#failures > 0) {
      if (!this.#wakeUp.isTimed) this.#wakeUp.within(backoffMs(this.#failures, 25, 1_000));
    } else if (this.#buffer.size >= this.#batchSize || this.#waiting.size > 0) this.#wakeUp.soon();
    else this.#wakeUp.within(this.#urgent ? this.#batchMs : this.#quietBatchMs);
  }

  async #send(): Promise<void> {
    this.#wakeUp.clear();
    if (this.#sending || this.#closed) return;
    const batch = this.#buffer.take(this.#batchSize);
    if (batch.length === 0) return;
    if (this.#buffer.size === 0) this.#urgent = false;
    this.#sending = true;
    this.#taken = { count: batch.length, bytes: batch.reduce((sum, { bytes }) => sum + bytes, 0) };
    const result = await this.#write(batch);
    this.#taken = { count: 0, bytes: 0 };
    this.#sending = false;
    this.#sent += result.sent;
    this.#unknown += result.unknown;
    this.#lastError = result.error;
    this.#failures = result.error ? this.#failures + 1 : 0;
    if (result.unsent.length > 0) {
      this.#buffer.putBack(result.unsent);
      this.#urgent = true;
    }
    if (this.#closed) this.#dropRest();
    else if (this.#buffer.size > 0) this.#schedule();
    for (const look of [...this.#waiting]) look();
  }

  async #write(batch: readonly QueuedOutcome[]): Promise<SendResult> {
    try {
      const result = await this.#settings.writer.send(batch);
      if (!Array.isArray(result?.unsent)) throw new TypeError(`a writer's send resolves to { sent, unsent, unknown }`);
      return result;
    } catch (error) {
      // A writer does not throw; if one does, or answers nonsense, nobody knows what is in the log.
      return { sent: 0, unsent: [], unknown: batch.length, error: error as Error };
    }
  }

  #drop(outcome: unknown, reason: DropReason, detail: string): void {
    this.#dropped[reason] += 1;
    try {
      this.#settings.onDrop?.(outcome, reason, detail);
    } catch {
      // The hook is the caller's; its mistakes must not reach the caller's payment.
    }
  }
}
