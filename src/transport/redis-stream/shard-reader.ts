import { type RedisClient, whenReady } from '../../redis/client.js';
import { backoffMs, sleep } from '../../redis/deadline.js';
import { isFailover, serverIds } from '../../redis/servers.js';
import type { BatchHandler, LogBatch, LogEntry } from '../port.js';
import { partitionName, readRecord, writeRecord } from './log-record.js';
import type { Settings } from './options.js';
import { Reads } from './reads.js';
import { commitShard, openShard, shardLag, trimShard } from './shard-log.js';
import { isBefore, rewound, START } from './stream-id.js';

const SAVE_EVERY_MS = 1_000;
const SERVERS_MAX = 16;

export type ShardReaderParts = {
  settings: Settings;
  shard: number;
  blocking: RedisClient;
  count: (name: string, by?: number) => void;
  warn: (facts: object, message: string) => void;
  /** The lease belongs to somebody else. */
  onLost: () => void;
};

/** Reads one shard in order, one batch at a time, from the committed id on. Whatever goes wrong, it opens the shard anew. */
export class ShardReader {
  readonly #parts: ShardReaderParts;
  readonly #stream: string;
  readonly #reads: Reads;
  #generation = 0;
  #committed = START;
  /** Last entry that the handler is done with; ahead of the committed one only when a commit failed. */
  #handled = START;
  /** Everything up to here was read before a failover and is read again; only then the failover is dealt with. */
  #readAgainTo = START;
  #servers: string[] = [];
  #savedServers: string[] = [];
  #savedAt = Number.NEGATIVE_INFINITY;
  #savedPosition = START;
  #lost = false;
  /** Ends what is done between two openings of the shard. */
  #round = new AbortController();

  lag = -1;
  lastProgressAt = performance.now();
  /** Why it holds still, when that is not its own fault. */
  paused: string | undefined = 'connecting';

  constructor(parts: ShardReaderParts) {
    this.#parts = parts;
    const { blocking, settings, shard } = parts;
    this.#stream = settings.keys.outcomes(shard);
    this.#reads = new Reads(blocking, this.#stream, settings.blockMs, settings.maxCount, () =>
      parts.count('watchdog_reconnects'),
    );
  }

  get partition(): string {
    return partitionName(this.#parts.settings.keys, this.#parts.shard, Math.max(1, this.#generation));
  }

  /** Resolves after the signal, when nothing is in flight and what was done is committed (as far as Redis can be reached). */
  async run(handler: BatchHandler, signal: AbortSignal): Promise<void> {
    const { blocking, shard, warn } = this.#parts;
    const endRead = () => blocking.disconnect();
    signal.addEventListener('abort', endRead, { once: true });
    if (signal.aborted) endRead();
    for (let attempt = 0; !signal.aborted; attempt += 1) {
      this.#round = new AbortController();
      try {
        const from = await this.#open(signal);
        if (this.#round.signal.aborted) continue;
        await this.#readOn(from, handler, AbortSignal.any([signal, this.#round.signal]), () => {
          attempt = -1;
        });
      } catch (error) {
        if (signal.aborted) break;
        this.paused = 'the log cannot be read';
        warn({ shard, err: error }, 'reading a shard of the log failed; trying again');
        // A read that still waits would hold up the next one, which must begin elsewhere.
        if (this.#reads.waiting) blocking.disconnect(true);
        await sleep(backoffMs(attempt), signal);
      }
    }
    if (!this.#lost) await this.#save().catch(() => {});
  }

  /** The lease belongs to somebody else: what this reader remembers may be old, and is not to be written. */
  lose(): void {
    this.#lost = true;
  }

  /** Another server may answer from now on: nothing more is recorded before the shard was opened anew, or its fence could hide a gap. */
  doubt(): void {
    this.#round.abort(new Error('another server may answer'));
  }

  /**
   * Looks from outside at what a waiting read or a busy handler does not see: a log that was deleted, and another server in place of
   * one of those known (`servers` are the ids of now). Either opens the shard anew.
   */
  async refresh(servers: readonly string[]): Promise<void> {
    if (this.#generation === 0 || this.paused !== undefined) return;
    const lag = await shardLag(this.#parts.settings.client, this.#stream);
    if (lag !== undefined) this.lag = lag;
    if (lag !== undefined && !isFailover(this.#servers, servers)) return;
    this.#round.abort(new Error(lag === undefined ? 'the log is gone' : 'another server answers'));
    this.#parts.blocking.disconnect(true);
  }

  /** Where to read on. */
  async #open(signal: AbortSignal): Promise<string> {
    const { settings, shard, blocking, count, warn } = this.#parts;
    const { client, keys, watch, rewindMs } = settings;
    await whenReady(blocking, signal);
    const record = await readRecord(client, keys, shard);
    const servers = await serverIds([client, ...watch]);
    if (record && record.generation >= this.#generation) {
      const newer = record.generation > this.#generation;
      if (newer) this.#handled = START;
      if (newer || isBefore(this.#committed, record.position)) this.#committed = record.position;
      this.#generation = record.generation;
      this.#savedServers = record.servers;
    }
    if (this.#generation === 0) this.#generation = 1;
    if (this.#servers.length === 0) this.#servers = this.#savedServers;

    const remembered = isBefore(this.#committed, this.#handled) ? this.#handled : this.#committed;
    const { what, committed, lag } = await openShard(client, keys, shard, remembered);
    if (what === 'raised' || what === 'recreated') {
      count('position_resets');
      warn({ shard, what, remembered }, 'the log ends below the position last committed');
    }
    this.#committed = committed;
    this.lag = lag;
    if (isFailover(this.#servers, servers) && what !== 'recreated') {
      count('failovers');
      this.#readAgain(isBefore(committed, remembered) ? remembered : committed);
      warn(
        { shard, back: rewindMs },
        'another server answers: going back, because the last writes may not have reached it',
      );
    }
    this.#servers = [...new Set([...this.#servers, ...servers])].slice(-SERVERS_MAX);
    if (what === 'recreated') {
      this.#generation += 1;
      this.#readAgainTo = START;
      this.#handled = START;
      await this.#save();
    }
    this.paused = undefined;
    return this.#readAgainTo === START ? committed : rewound(committed, rewindMs);
  }

  async #readOn(start: string, handler: BatchHandler, signal: AbortSignal, onProgress: () => void): Promise<void> {
    let from = start;
    let read = this.#reads.start(from);
    while (!signal.aborted) {
      const { entries } = await read;
      if (signal.aborted) return;
      const last = entries.at(-1)?.position;
      if (last === undefined) {
        this.#progressed();
        this.#readAgain(START);
        await this.#saveIfDue();
        read = this.#reads.start(from);
        continue;
      }
      read = this.#reads.start(last);
      await this.#deliver({ partition: this.partition, entries }, handler, signal);
      if (isBefore(this.#handled, last)) this.#handled = last;
      await this.#commit(entries, last);
      onProgress();
      from = last;
    }
  }

  /** Hands the batch over until it is taken. After a failover it must not be: what lies before it comes again first. */
  async #deliver(batch: LogBatch, handler: BatchHandler, signal: AbortSignal): Promise<void> {
    const { settings, shard, count, warn } = this.#parts;
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await handler(batch, signal);
      } catch (error) {
        if (signal.aborted) throw error;
        count('redeliveries');
        warn({ shard, err: error }, 'a batch could not be handled; handing it over again');
        await sleep(backoffMs(attempt), signal);
        if (signal.aborted) throw error;
      }
      if (isFailover(this.#servers, await serverIds([settings.client, ...settings.watch]))) {
        throw new Error('another server answers');
      }
    }
  }

  async #commit(entries: readonly LogEntry[], last: string): Promise<void> {
    const { settings, shard, count, onLost } = this.#parts;
    count('entries_read', entries.length);
    const fresh = entries.filter((entry) => isBefore(this.#committed, entry.position));
    if (fresh.length > 0) {
      const { result, lag, lost } = await commitShard(settings.client, settings.keys, shard, settings.worker, {
        from: this.#committed,
        first: fresh[0]!.position,
        last,
        count: fresh.length,
      });
      if (result === 'not-holder') onLost();
      if (result === 'not-holder' || result === 'gone') throw new Error(`not committed: ${result}`);
      if (lost > 0) count('entries_lost_to_cap', lost);
      count('commits');
      this.lag = lag;
      this.#committed = last;
    }
    this.#progressed();
    if (!isBefore(last, this.#readAgainTo)) this.#readAgain(START);
    await this.#saveIfDue();
  }

  /** Once it is done, the servers of now are the ones to be known: to be noted though the position is the same. */
  #readAgain(to: string): void {
    if (this.#readAgainTo === to) return;
    this.#readAgainTo = to;
    this.#savedPosition = START;
  }

  #progressed(): void {
    this.lastProgressAt = performance.now();
    this.paused = undefined;
  }

  /** Not worth a failure: the next one comes in a second. */
  async #saveIfDue(): Promise<void> {
    const due = performance.now() - this.#savedAt >= SAVE_EVERY_MS;
    if (due && this.#savedPosition !== this.#committed) await this.#save().catch(() => {});
  }

  /** Notes the position in `fuseline:log`, to tell another log from this one by, and cuts off what nobody reads again. */
  async #save(): Promise<void> {
    if (this.#generation === 0) return;
    const { client, keys, rewindMs } = this.#parts.settings;
    this.#savedAt = performance.now();
    if (this.#readAgainTo === START) this.#savedServers = this.#servers;
    const record = { generation: this.#generation, position: this.#committed, servers: this.#savedServers };
    await writeRecord(client, keys, this.#parts.shard, record);
    await trimShard(client, this.#stream, rewound(record.position, rewindMs));
    this.#savedPosition = record.position;
  }
}
