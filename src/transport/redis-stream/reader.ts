import { closeRedis, whenReady } from '../../redis/client.js';
import { sleep } from '../../redis/deadline.js';
import { onOtherServer, serverIds } from '../../redis/servers.js';
import { beat, leave } from '../heartbeat.js';
import type { BatchHandler, DeadLetter, LogProgress, LogReader } from '../port.js';
import { quietLog } from '../quiet-log.js';
import { appendDeadLetter } from './dead-letters.js';
import { holdLease, releaseLease } from './leases.js';
import { type ReaderOptions, type Settings, withDefaults } from './options.js';
import { ShardReader } from './shard-reader.js';
import { readShards } from './shards.js';

const LOOK_MS = 500;
const BEAT_MS = 2_000;
const SHARDS_MS = 5_000;
/** A shard given up for balance is not taken back at once, so that another can. */
const GIVEN_UP_MS = 3_000;
/** With the same number of workers as before, balance is not sought again sooner: somebody may be listed who takes nothing. */
const BALANCE_AGAIN_MS = 30_000;

type Owned = { reader: ShardReader; stop: AbortController; ended: Promise<void>; heldAt: number };

/**
 * Reads the outcome log on Redis Streams. Workers share the shards by leases: a free shard is taken by whoever sees it first; who holds
 * more than its share gives the rest up.
 */
export function createRedisStreamReader(options: ReaderOptions): LogReader {
  return new RedisStreamReader(withDefaults(options));
}

class RedisStreamReader implements LogReader {
  readonly #settings: Settings;
  readonly #warn: (facts: object, message: string) => void;
  readonly #owned = new Map<number, Owned>();
  readonly #ending = new Map<number, Promise<void>>();
  readonly #givenUp = new Map<number, number>();
  readonly #counters: Record<string, number> = {};
  #used: readonly number[] = [];
  #away: string | undefined = 'connecting';
  #beatAt = Number.NEGATIVE_INFINITY;
  #shardsAt = Number.NEGATIVE_INFINITY;
  #balanced = { live: 1, at: Number.NEGATIVE_INFINITY };

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#warn = quietLog(settings.log);
  }

  async run(handler: BatchHandler, signal: AbortSignal): Promise<void> {
    await whenReady(this.#settings.client, signal).catch(() => {});
    const ignore = onOtherServer([this.#settings.client, ...this.#settings.watch], () => {
      for (const { reader } of this.#owned.values()) reader.doubt();
      // A shard where nothing comes is looked at from outside.
      this.#beatAt = Number.NEGATIVE_INFINITY;
    });
    while (!signal.aborted) {
      try {
        await this.#look(handler, signal);
        this.#away = undefined;
      } catch (error) {
        this.#away = `Redis cannot be used: ${error instanceof Error ? error.message : String(error)}`;
        this.#warn({ err: error }, 'looking after the shards failed; trying again');
      }
      await sleep(LOOK_MS, signal);
    }
    ignore();
    await Promise.all([...this.#owned.keys()].map((shard) => this.#giveUp(shard)));
    await Promise.all(this.#ending.values());
    await leave(this.#settings.client, this.#settings.keys, this.#settings.worker).catch(() => {});
  }

  async deadLetter(letter: DeadLetter): Promise<void> {
    await appendDeadLetter(this.#settings.client, this.#settings.keys, letter);
    this.#count('dead_letters');
  }

  progress(): LogProgress {
    const readers = [...this.#owned.values()].map(({ reader }) => reader);
    const lags = readers.map((reader) => reader.lag);
    const waiting = readers.filter((reader) => reader.paused === undefined).map((reader) => reader.lastProgressAt);
    const paused = this.#away ?? readers.find((reader) => reader.paused !== undefined)?.paused;
    return {
      owned: readers.map((reader) => reader.partition),
      lag: lags.includes(-1) ? -1 : lags.reduce((sum, lag) => sum + lag, 0),
      lastProgressAt: Math.min(performance.now(), ...waiting),
      ...(paused === undefined ? {} : { paused }),
      counters: { ...this.#counters },
    };
  }

  /** One look at everything that is due: heartbeat, registry, leases, free shards. */
  async #look(handler: BatchHandler, signal: AbortSignal): Promise<void> {
    const { client, keys, worker, shards } = this.#settings;
    const now = performance.now();
    if (now - this.#shardsAt >= SHARDS_MS) {
      this.#used = (await readShards(client, keys, shards)).used;
      this.#shardsAt = now;
    }
    await this.#renew();
    if (now - this.#beatAt >= BEAT_MS) {
      const live = await beat(client, keys, worker);
      this.#beatAt = now;
      this.#balance(live, now);
      const servers = await serverIds([client, ...this.#settings.watch]);
      await Promise.all([...this.#owned.values()].map(({ reader }) => reader.refresh(servers)));
    }
    await this.#takeFree(handler, signal);
  }

  async #renew(): Promise<void> {
    const { client, keys, worker, leaseMs } = this.#settings;
    const now = performance.now();
    const due = [...this.#owned].filter(([, owned]) => now - owned.heldAt >= leaseMs * 0.3);
    await Promise.all(
      due.map(async ([shard, owned]) => {
        if (await holdLease(client, keys, shard, worker, leaseMs)) owned.heldAt = now;
        else this.#lost(shard);
      }),
    );
  }

  #balance(live: number, now: number): void {
    if (live === this.#balanced.live && now - this.#balanced.at < BALANCE_AGAIN_MS) return;
    this.#balanced = { live, at: now };
    const share = Math.ceil(this.#used.length / Math.max(1, live));
    for (const shard of [...this.#owned.keys()].slice(share)) {
      this.#count('shards_given_up');
      this.#givenUp.set(shard, now);
      void this.#giveUp(shard);
    }
  }

  async #takeFree(handler: BatchHandler, signal: AbortSignal): Promise<void> {
    const { client, keys, worker, leaseMs } = this.#settings;
    for (const shard of this.#used) {
      if (signal.aborted) return;
      if (this.#owned.has(shard) || this.#ending.has(shard)) continue;
      if (performance.now() - (this.#givenUp.get(shard) ?? Number.NEGATIVE_INFINITY) < GIVEN_UP_MS) continue;
      const heldAt = performance.now();
      if (await holdLease(client, keys, shard, worker, leaseMs)) this.#start(shard, heldAt, handler);
    }
  }

  #start(shard: number, heldAt: number, handler: BatchHandler): void {
    const blocking = this.#settings.openClient();
    const reader = new ShardReader({
      settings: this.#settings,
      shard,
      blocking,
      count: (name, by) => this.#count(name, by),
      warn: this.#warn,
      onLost: () => this.#lost(shard),
    });
    const stop = new AbortController();
    const ended = reader.run(handler, stop.signal).finally(() => closeRedis(blocking));
    this.#owned.set(shard, { reader, stop, ended, heldAt });
    this.#settings.log.info({ shard, partition: reader.partition }, 'reading a shard');
  }

  #lost(shard: number): void {
    const owned = this.#owned.get(shard);
    if (!owned) return;
    owned.reader.lose();
    this.#count('leases_lost');
    this.#warn({ shard }, 'another worker took a shard');
    void this.#giveUp(shard);
  }

  /** Resolves when the shard is at rest and its lease is back. Never rejects. */
  #giveUp(shard: number): Promise<void> {
    const owned = this.#owned.get(shard);
    if (!owned) return Promise.resolve();
    const { client, keys, worker } = this.#settings;
    this.#owned.delete(shard);
    owned.stop.abort();
    const ended = owned.ended
      .then(() => releaseLease(client, keys, shard, worker))
      .catch((error: unknown) =>
        this.#warn({ shard, err: error }, 'a lease could not be given back; it runs out by itself'),
      )
      .finally(() => this.#ending.delete(shard));
    this.#ending.set(shard, ended);
    return ended;
  }

  #count(name: string, by = 1): void {
    this.#counters[name] = (this.#counters[name] ?? 0) + by;
  }
}
