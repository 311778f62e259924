import type { Outcome } from '../domain/outcome.js';
import { backoffMs, sleep } from '../redis/deadline.js';
import type { LogWriter, QueuedOutcome } from '../transport/port.js';
import { reasonOf } from './failure.js';

/** Lists are line numbers, ascending. `unknown` outcomes got no answer; they are among the lines `unknownIn`, and may be in the log. */
export type SendCounts = {
  readonly sent: number;
  readonly invalid: readonly number[];
  readonly unsent: readonly number[];
  readonly unknown: number;
  readonly unknownIn: readonly number[];
  readonly error?: string;
};

const BATCH = 500;
/** An outage shorter than this is waited out. */
const PATIENCE_MS = 30_000;

type Numbered = QueuedOutcome & { readonly line: number };

/**
 * Sends outcomes and accounts for every line. Unlike a service's publisher it never drops: whoever adds waits until there is room, and
 * what the log does not take is tried again until patience ends; then it gives up for good.
 */
export class Sender {
  readonly #writer: LogWriter;
  readonly #signal: AbortSignal;
  readonly #onTrouble: (sentence: string) => void;
  readonly #onSent: (outcomes: readonly QueuedOutcome[]) => Promise<void>;
  #batch: Numbered[] = [];
  #sent = 0;
  #error: string | undefined;
  #failingSince: number | undefined;
  readonly #invalid: number[] = [];
  readonly #unsent: number[] = [];
  readonly #unknownIn: number[] = [];
  #unknown = 0;

  /**
   * `onTrouble` is called once for each time that the log begins not to take what it is sent; `onSent` for what is in the log, or may be,
   * in the order in which it was sent, and is waited for.
   */
  constructor(
    writer: LogWriter,
    signal: AbortSignal,
    onTrouble: (sentence: string) => void,
    onSent: (outcomes: readonly QueuedOutcome[]) => Promise<void> = async () => {},
  ) {
    this.#writer = writer;
    this.#signal = signal;
    this.#onTrouble = onTrouble;
    this.#onSent = onSent;
  }

  get gaveUp(): boolean {
    return this.#unsent.length > 0;
  }

  async add(outcome: Outcome, line: number): Promise<void> {
    const queuedAt = performance.now() - (outcome.agoMs ?? 0);
    this.#batch.push({ outcome, queuedAt, bytes: 0, line });
    if (this.#batch.length >= BATCH) await this.flush();
  }

  skip(line: number): void {
    this.#invalid.push(line);
  }

  /** Resolves when nothing waits: sent, or given up. */
  async flush(): Promise<void> {
    let left: readonly Numbered[] = this.#batch;
    this.#batch = [];
    for (let attempt = 0; left.length > 0; attempt += 1) {
      const { sent, unsent, unknown, error } = await this.#writer.send(left);
      const back = new Set<QueuedOutcome>(unsent);
      this.#sent += sent;
      if (error !== undefined) this.#error = reasonOf(error);
      this.#unknown += unknown;
      if (unknown > 0) this.#unknownIn.push(...left.filter((one) => !back.has(one)).map(({ line }) => line));
      await this.#onSent(left.filter((one) => !back.has(one)));
      left = left.filter((one) => back.has(one));
      if (left.length === 0) break;
      if (sent > 0) this.#failingSince = undefined;
      if (this.#failingSince === undefined) {
        this.#failingSince = performance.now();
        this.#onTrouble(`the log does not take them, trying again for ${PATIENCE_MS / 1_000} s: ${this.#error}`);
      }
      if (this.#signal.aborted || performance.now() - this.#failingSince > PATIENCE_MS) {
        this.#unsent.push(...left.map(({ line }) => line));
        return;
      }
      await sleep(backoffMs(attempt), this.#signal);
    }
    this.#failingSince = undefined;
    if (this.#unknown === 0) this.#error = undefined;
  }

  counts(): SendCounts {
    return {
      sent: this.#sent,
      invalid: this.#invalid,
      unsent: this.#unsent,
      unknown: this.#unknown,
      unknownIn: this.#unknownIn,
      ...(this.#error === undefined ? {} : { error: this.#error }),
    };
  }
}

const RANGES_SHOWN = 10;

/** `lines 3, 7-9`; after ten ranges the rest is only counted, it was told line by line before. */
export function showRanges(lines: readonly number[]): string {
  const ranges: [first: number, last: number][] = [];
  for (const line of lines) {
    const last = ranges.at(-1);
    if (last !== undefined && line <= last[1] + 1) last[1] = line;
    else ranges.push([line, line]);
  }
  const shown = ranges
    .slice(0, RANGES_SHOWN)
    .map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`));
  const more = ranges.length > RANGES_SHOWN ? ', …' : '';
  return `${lines.length === 1 ? 'line' : 'lines'} ${shown.join(', ')}${more}`;
}
