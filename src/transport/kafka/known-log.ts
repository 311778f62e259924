import type { RedisClient } from '../../redis/client.js';
import type { Keys } from '../../redis/keys.js';
import { isFailover, serverIds } from '../../redis/servers.js';
import { logName, readRecord, writeRecord } from './log-record.js';
import type { TopicView } from './topic-view.js';

export type KnownLogParts = {
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly topic: string;
  readonly partition: number;
  /** How far to go back after a failover of Redis; ms. */
  readonly rewindMs: number;
  /** Other servers whose failover matters too: those of the channels, where they lie elsewhere. */
  readonly watch: readonly RedisClient[];
};

/**
 * What is known of one partition's log beyond Kafka's own offsets: which generation it is, and on which Redis servers everything that was
 * read of it is recorded. Kept in `fuseline:log` for whoever reads it next.
 */
export class KnownLog {
  readonly #parts: KnownLogParts;
  readonly #name: string;
  #generation = 0;
  #arrivalMs = 0;
  /** Known now; noted only when all that must be read again for their sake was. */
  #servers: readonly string[] = [];
  #notedServers: readonly string[] = [];
  #savedPosition = -1n;
  /** Noted by whoever read it last; the group's own offset may have been reset since. */
  position: bigint | undefined;

  constructor(parts: KnownLogParts) {
    this.#parts = parts;
    this.#name = logName(parts.topic, parts.partition);
  }

  /** The partition's name, as fences know it. */
  get name(): string {
    return `${this.#name}/${Math.max(1, this.#generation)}`;
  }

  /**
   * Looks whether this is the log that was read before. It is another one, and gets the next generation, if it ends before the position
   * noted, or if an entry before that position arrived later than any that was read. `high`: the partition's end.
   *
   * @throws what Redis or the brokers answer
   */
  async open(high: bigint, view: TopicView, logClock: boolean): Promise<'same' | 'new' | 'another'> {
    const { client, keys, partition } = this.#parts;
    const record = await readRecord(client, keys, this.#name);
    if (record === undefined) {
      this.#generation = 1;
      this.#arrivalMs = 0;
      this.position = undefined;
      return 'new';
    }
    const position = BigInt(record.position);
    this.position = position;
    let isAnother = high < position;
    if (!isAnother && logClock && record.arrivalMs > 0) {
      const after = (await view.firstAfter(record.arrivalMs)).get(partition);
      isAnother = after !== undefined && after < position;
    }
    this.#generation = record.generation + (isAnother ? 1 : 0);
    this.#arrivalMs = isAnother ? 0 : record.arrivalMs;
    this.#servers = isAnother ? [] : record.servers;
    this.#notedServers = this.#servers;
    return isAnother ? 'another' : 'same';
  }

  /** An entry that arrived then is done with. */
  note(arrivalMs: number): void {
    if (arrivalMs > this.#arrivalMs) this.#arrivalMs = arrivalMs;
  }

  /** The ids of the servers that answer now. @throws nobody answers */
  serversNow(): Promise<string[]> {
    return serverIds([this.#parts.client, ...this.#parts.watch]);
  }

  /** Whether one of them was not known: what was recorded last may be gone. */
  isFailover(servers: readonly string[]): boolean {
    return isFailover(this.#servers, servers);
  }

  /** They are known from now on, though not noted before {@link KnownLog.readAgain}. */
  meet(servers: readonly string[]): void {
    const knewNone = this.#servers.length === 0;
    this.#servers = servers;
    if (knewNone) this.#notedServers = servers;
  }

  /** Everything from before the failover was read again. */
  readAgain(): void {
    this.#notedServers = this.#servers;
    this.#savedPosition = -1n;
  }

  /** Where to go back to after a failover; nothing if nothing was read. @throws what the brokers answer */
  async rewindOffset(view: TopicView): Promise<bigint | undefined> {
    if (this.#arrivalMs === 0) return undefined;
    return (await view.firstAfter(this.#arrivalMs - this.#parts.rewindMs)).get(this.#parts.partition);
  }

  /** Only has to tell another log from this one, so it may lie behind. @throws what Redis answers */
  async save(position: bigint): Promise<void> {
    if (this.#generation === 0 || position === this.#savedPosition) return;
    const { client, keys } = this.#parts;
    this.#savedPosition = position;
    await writeRecord(client, keys, this.#name, {
      generation: this.#generation,
      position: String(position),
      arrivalMs: this.#arrivalMs,
      servers: [...this.#notedServers],
    });
  }
}
