import { EventEmitter, once } from 'node:events';
import { AGO_MAX_MS } from '../domain/outcome.js';
import { shardOf } from '../domain/shard.js';
import { backoffMs, sleep } from '../redis/deadline.js';
import type { BatchHandler, DeadLetter, LogEntry, LogProgress, LogReader, LogWriter } from './port.js';

/** A log within one process, for tests: ours and our users'. It keeps all that a log promises, except that it ends with the process. */
export type MemoryLog = {
  writer(): LogWriter;
  /** Any number of readers share the partitions; one that ends leaves them to the others. */
  reader(): LogReader;
  /** Appends one entry as a foreign program would; resolves to nothing, returns the position. */
  append(partition: number, outcomes: readonly unknown[]): string;
  readonly deadLetters: readonly DeadLetter[];
  readonly partitions: number;
};

export type MemoryLogOptions = {
  partitions?: number;
  /** The log's clock, ms. */
  now?: () => number;
  /** Most entries handed over at once. */
  maxBatch?: number;
};

type Partition = {
  readonly name: string;
  readonly entries: LogEntry[];
  /** How many entries are done with. */
  committed: number;
  owner: MemoryReader | undefined;
};

type Shared = {
  readonly partitions: readonly Partition[];
  readonly readers: Set<MemoryReader>;
  readonly letters: DeadLetter[];
  /** Emits `change` when there may be something to read or to take. */
  readonly bell: EventEmitter;
  readonly maxBatch: number;
};

export function createMemoryLog({ partitions = 4, now = Date.now, maxBatch = 100 }: MemoryLogOptions = {}): MemoryLog {
  const shared: Shared = {
    partitions: Array.from({ length: partitions }, (_, n) => newPartition(n)),
    readers: new Set(),
    letters: [],
    bell: new EventEmitter().setMaxListeners(0),
    maxBatch,
  };
  const append = (n: number, outcomes: readonly unknown[]): string => {
    const { entries } = shared.partitions[n]!;
    const position = String(entries.length + 1);
    entries.push({ position, arrivalMs: now(), outcomes, raw: () => JSON.stringify(outcomes) });
    shared.bell.emit('change');
    return position;
  };
  return {
    writer: () => createWriter(append, partitions),
    reader: () => new MemoryReader(shared),
    append,
    deadLetters: shared.letters,
    partitions,
  };
}

function newPartition(n: number): Partition {
  return { name: `memory/outcomes/${n}/1`, entries: [], committed: 0, owner: undefined };
}

function createWriter(append: MemoryLog['append'], partitions: number): LogWriter {
  return {
    async send(batch) {
      const groups = new Map<number, unknown[]>();
      for (const { outcome, queuedAt } of batch) {
        const shard = shardOf(outcome.channel, partitions);
        const agoMs = Math.min(AGO_MAX_MS, Math.max(0, Math.round(performance.now() - queuedAt)));
        groups.set(shard, [...(groups.get(shard) ?? []), { ...outcome, agoMs }]);
      }
      for (const [shard, outcomes] of groups) append(shard, outcomes);
      return { sent: batch.length, unsent: [], unknown: 0 };
    },
    async close() {},
  };
}

class MemoryReader implements LogReader {
  readonly #shared: Shared;
  readonly #counters = { entries_read: 0, commits: 0, redeliveries: 0, dead_letters: 0 };
  #lastProgressAt = performance.now();

  constructor(shared: Shared) {
    this.#shared = shared;
  }

  async run(handler: BatchHandler, signal: AbortSignal): Promise<void> {
    const { readers, partitions, bell } = this.#shared;
    readers.add(this);
    bell.emit('change');
    await Promise.all(partitions.map((partition) => this.#follow(partition, handler, signal)));
    readers.delete(this);
    bell.emit('change');
  }

  async deadLetter(letter: DeadLetter): Promise<void> {
    this.#shared.letters.push(letter);
    this.#counters.dead_letters += 1;
  }

  progress(): LogProgress {
    const owned = this.#owned();
    return {
      owned: owned.map(({ name }) => name),
      lag: owned.reduce((sum, { entries, committed }) => sum + entries.length - committed, 0),
      lastProgressAt: this.#lastProgressAt,
      counters: { ...this.#counters },
    };
  }

  async #follow(partition: Partition, handler: BatchHandler, signal: AbortSignal): Promise<void> {
    for (let attempt = 0; !signal.aborted; ) {
      if (!this.#mayHave(partition)) {
        if (partition.owner === this) this.#leave(partition);
        await this.#change(signal);
        continue;
      }
      partition.owner = this;
      const entries = partition.entries.slice(partition.committed, partition.committed + this.#shared.maxBatch);
      if (entries.length === 0) {
        this.#lastProgressAt = performance.now();
        await this.#change(signal);
        continue;
      }
      this.#counters.entries_read += entries.length;
      try {
        await handler({ partition: partition.name, entries }, signal);
        partition.committed += entries.length;
        this.#counters.commits += 1;
        this.#lastProgressAt = performance.now();
        attempt = 0;
      } catch {
        this.#counters.redeliveries += 1;
        await sleep(backoffMs(attempt, 5, 500), signal);
        attempt += 1;
      }
    }
    if (partition.owner === this) this.#leave(partition);
  }

  /** One's own up to one's share, and what is free below it. */
  #mayHave(partition: Partition): boolean {
    const { partitions, readers } = this.#shared;
    const share = Math.ceil(partitions.length / readers.size);
    const owned = this.#owned();
    if (partition.owner === this) return owned.indexOf(partition) < share;
    return partition.owner === undefined && owned.length < share;
  }

  #owned(): Partition[] {
    return this.#shared.partitions.filter(({ owner }) => owner === this);
  }

  #leave(partition: Partition): void {
    partition.owner = undefined;
    this.#shared.bell.emit('change');
  }

  async #change(signal: AbortSignal): Promise<void> {
    await once(this.#shared.bell, 'change', { signal }).catch(() => {});
  }
}
