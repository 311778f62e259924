import { randomBytes } from 'node:crypto';
import type { ChannelBatch, RecordResult } from '../domain/batch.js';
import { type JudgedClass, resultOf } from '../domain/classify.js';
import type { Outcome } from '../domain/outcome.js';
import { evidenceText } from '../intake/group.js';
import { backoffMs, isIncurable, sleep } from '../redis/deadline.js';

/** What a call of the script said about one batch; `justBlocked` if that very call blocked the channel. */
export type DirectResult = RecordResult & { readonly justBlocked: boolean };

export type DirectLogOptions = {
  /** Judges one batch. Rejects when Redis gave no answer: it is then called again, what was in it marked as sent before. */
  readonly judge: (channel: string, batch: ChannelBatch) => Promise<DirectResult>;
  /** Outcomes that wait longer are dropped: Redis would call them stale. */
  readonly freshForMs: number;
  /** Told when outcomes are given up: too old, too many waiting, or a key of the channel has a foreign type. */
  readonly onDrop: (channel: string, outcomes: number) => void;
};

const AT_ONCE = 1_000;
/** Outcomes that may wait per channel while Redis is away; beyond it the oldest go. */
export const MOST_WAITING = 10_000;

type Item = {
  readonly outcome: Outcome;
  readonly kind: JudgedClass;
  readonly queuedAt: number;
  readonly position: number;
  /** Was in a call that failed or gave no answer: perhaps Redis has it already. */
  again: boolean;
  readonly settle: (result: DirectResult | undefined) => void;
};

/**
 * A log without a log: each process is a partition of its own, and its counter the position. One call per channel in flight, later
 * outcomes join the next, so that the fence can tell what a lost answer had already done.
 */
export class DirectLog {
  readonly #partition = `direct/${randomBytes(8).toString('hex')}`;
  readonly #options: DirectLogOptions;
  readonly #waiting = new Map<string, Item[]>();
  readonly #running = new Map<string, Promise<void>>();
  readonly #stop = new AbortController();
  #next = 1;

  constructor(options: DirectLogOptions) {
    this.#options = options;
  }

  /** Resolves to what became of the outcome, or to `undefined` if it was given up. Never rejects. */
  add(outcome: Outcome, kind: JudgedClass): Promise<DirectResult | undefined> {
    const { channel } = outcome;
    return new Promise((settle) => {
      const queue = this.#waiting.get(channel) ?? [];
      this.#waiting.set(channel, queue);
      queue.push({ outcome, kind, queuedAt: performance.now(), position: this.#next, again: false, settle });
      this.#next += 1;
      if (queue.length > MOST_WAITING) this.#drop(channel, queue.splice(0, queue.length - MOST_WAITING));
      if (!this.#running.has(channel)) this.#running.set(channel, this.#run(channel, queue));
    });
  }

  /** Waits for what is on its way, up to `ms`; then gives up the rest. */
  async close(ms: number): Promise<void> {
    const timer = setTimeout(() => this.#stop.abort(), ms);
    await Promise.all(this.#running.values());
    clearTimeout(timer);
    this.#stop.abort();
  }

  async #run(channel: string, queue: Item[]): Promise<void> {
    // Outcomes of the same tick go together.
    await Promise.resolve();
    for (let failures = 0; queue.length > 0; ) {
      const tooOld = performance.now() - this.#options.freshForMs;
      const fresh = queue.findIndex(({ queuedAt }) => queuedAt > tooOld);
      if (fresh !== 0) this.#drop(channel, queue.splice(0, fresh === -1 ? queue.length : fresh));
      const items = queue.splice(0, AT_ONCE);
      if (items.length === 0) break;
      try {
        const result = await this.#options.judge(channel, toBatch(this.#partition, items));
        for (const { settle } of items) settle(result);
        failures = 0;
      } catch (error) {
        if (isIncurable(error)) {
          this.#drop(channel, items);
          continue;
        }
        for (const item of items) item.again = true;
        queue.unshift(...items);
        await sleep(backoffMs(failures), this.#stop.signal);
        failures += 1;
        if (this.#stop.signal.aborted) this.#drop(channel, queue.splice(0));
      }
    }
    this.#running.delete(channel);
    this.#waiting.delete(channel);
  }

  #drop(channel: string, items: readonly Item[]): void {
    for (const { settle } of items) settle(undefined);
    if (items.length > 0) this.#options.onDrop(channel, items.length);
  }
}

/** Arrival 0: Redis takes its own time at the call, and `agoMs` tells how long each outcome waited here. */
function toBatch(partition: string, items: readonly Item[]): ChannelBatch {
  const now = performance.now();
  const at = Date.now();
  return {
    partition,
    results: items.map(({ kind, again }) => (kind === 'success' && again ? '2' : resultOf(kind))).join(''),
    entries: items.map(({ position }) => [String(position), 0, 1]),
    times: items.flatMap(({ outcome, queuedAt }) => [Math.round(now - queuedAt), outcome.durationMs ?? 0]),
    evidence: items.filter(({ kind }) => kind !== 'success').map(({ outcome }) => evidenceText(outcome, at)),
  };
}
