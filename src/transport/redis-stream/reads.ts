import type { RedisClient } from '../../redis/client.js';
import { DeadlineError } from '../../redis/deadline.js';
import { type Read, readShard } from './shard-log.js';

/** A read begins with this many entries: a hundred of 10 MB must not come at once before we know their size. */
const FIRST_COUNT = 16;
/**
 * Above this size of one read, in characters, fewer entries are asked for. It bounds memory, and how long one script call holds up a
 * shared Redis: 1 MiB is about 10,000 outcomes, some 5 ms if all are of one channel. Larger reads were measured to be no faster.
 */
const BIG_READ = 1024 * 1024;

/** The reads of one shard on its own connection, sized by what came before. */
export class Reads {
  readonly #blocking: RedisClient;
  readonly #stream: string;
  readonly #blockMs: number;
  readonly #maxCount: number;
  readonly #onHang: () => void;
  #count = FIRST_COUNT;
  #waiting = false;

  constructor(blocking: RedisClient, stream: string, blockMs: number, maxCount: number, onHang: () => void) {
    this.#blocking = blocking;
    this.#stream = stream;
    this.#blockMs = blockMs;
    this.#maxCount = maxCount;
    this.#onHang = onHang;
  }

  /** Whether a read sits on the connection, where it would hold up the next one. */
  get waiting(): boolean {
    return this.#waiting;
  }

  /** Begins to read what follows `after`. May be left alone: a failure then is nobody's. */
  start(after: string): Promise<Read> {
    const read = this.#read(after);
    read.catch(() => {});
    return read;
  }

  async #read(after: string): Promise<Read> {
    const asked = this.#count;
    this.#waiting = true;
    try {
      const read = await readShard(this.#blocking, this.#stream, after, asked, this.#blockMs);
      if (read.size > BIG_READ) this.#count = Math.max(1, Math.floor(asked / 2));
      else if (read.entries.length === asked && read.size < BIG_READ / 4)
        this.#count = Math.min(this.#maxCount, asked * 2);
      this.#waiting = false;
      return read;
    } catch (error) {
      // No answer yet: the read may still be there. Any other error has ended it.
      this.#waiting = error instanceof DeadlineError;
      if (this.#waiting) this.#onHang();
      throw error;
    }
  }
}
