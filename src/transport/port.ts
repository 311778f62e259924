import type { Outcome } from '../domain/outcome.js';

/**
 * A transport is one kind of outcome log: partitions that keep the order of what is appended. It moves outcomes; it never judges
 * them. Every transport passes the suite in `test/transport/conformance.ts`.
 */

/** One entry as it was read. `outcomes` are decoded (JSON, fields) but not validated; `fault` says why it could not be decoded. */
export type LogEntry = {
  /** `<a>` or `<a>-<b>`, canonical decimal digits, ascending within the partition: Kafka offset, or stream entry id. */
  readonly position: string;
  /** When the log took the entry, by the log's clock. */
  readonly arrivalMs: number;
  readonly outcomes: readonly unknown[];
  readonly fault?: string;
  /**
   * A shorter way to the same outcomes: hands them over as `parseOutcome` would give them, but for `at`, always in the same object, which
   * `take` must not keep, nor ask for another entry meanwhile. False, and nothing handed over, where only `fault` and `outcomes` tell; so
   * does a transport that knows no shorter way.
   */
  eachPlain?(take: (outcome: Outcome) => void): boolean;
  /** The entry's text as it came, for the dead letter; cut to {@link RAW_MAX} characters. Only asked for when something is wrong. */
  raw(): string;
};

/** How much of a bad entry a dead letter keeps. */
export const RAW_MAX = 16_384;

export type LogBatch = {
  /** `<transport>/<topic or stream>/<n>/<generation>`: names the fence's field. */
  readonly partition: string;
  readonly entries: readonly LogEntry[];
};

/** An outcome or entry that cannot be read, kept for a person. `index` is its place within the entry; -1 for the entry as a whole. */
export type DeadLetter = {
  readonly reason: string;
  readonly partition: string;
  readonly position: string;
  readonly index: number;
  readonly raw: string;
};

/**
 * Handles one batch. When it resolves, the batch is done and may be committed. When it rejects, the same partition gets the same
 * entries again (after a back-off) before any later one: nothing is skipped, and other partitions go on.
 */
export type BatchHandler = (batch: LogBatch, signal: AbortSignal) => Promise<void>;

export type LogReader = {
  /**
   * Reads until the signal, one handler call per partition at a time, in order. Resolves when nothing is in flight, what was done is
   * committed, and partitions are given back. Outages are waited out inside.
   */
  run(handler: BatchHandler, signal: AbortSignal): Promise<void>;
  /** Appends to the dead letters. Resolves only when the log has it, so that nothing is committed before. */
  deadLetter(letter: DeadLetter): Promise<void>;
  /** For `/readyz` and `/metrics`. */
  progress(): LogProgress;
};

export type LogProgress = {
  /** Partitions that this reader owns right now. */
  readonly owned: readonly string[];
  /** Entries not yet committed in the owned partitions, as last seen; -1 when unknown. */
  readonly lag: number;
  /** `performance.now()` of the last moment at which something was committed or nothing was left to read. */
  readonly lastProgressAt: number;
  /** Set while the reader holds still on purpose (Redis away, back-pressure): not counted as a stall. */
  readonly paused?: string;
  /** Monotonic counters by name: `entries_read`, `entries_lost_to_cap`, `commits`, `position_resets`, … */
  readonly counters: Readonly<Record<string, number>>;
};

/** What happened to outcomes handed to {@link LogWriter.send}. Nothing is both sent and unsent; `unknown` must not be repeated. */
export type SendResult = {
  readonly sent: number;
  readonly unsent: readonly QueuedOutcome[];
  readonly unknown: number;
  readonly error?: Error;
};

/** An outcome that waits in the publisher: `queuedAt` is `performance.now()`, from which `agoMs` is made at send. */
export type QueuedOutcome = { readonly outcome: Outcome; readonly queuedAt: number; readonly bytes: number };

export type LogWriter = {
  /** Appends in order per channel. Never throws; one call at a time. */
  send(batch: readonly QueuedOutcome[]): Promise<SendResult>;
  close(): Promise<void>;
};
