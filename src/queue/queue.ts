import { type JobsOptions, Queue } from 'bullmq';
import type { RedisClient } from '../redis/client.js';
import { withDeadline } from '../redis/deadline.js';

/** Finished jobs keep their ids for this long: within it, adding the same job again does nothing. */
export const KEEP_JOBS_MS = 7 * 24 * 3_600_000;
/** The back-off of every job is decided by the worker that runs it, see `openWorker`. */
export const BACKOFF = 'fuseline';
/** Longest delay that is passed on; whatever waits longer (a block without end) is looked at again by the sweep. */
const DELAY_MAX_MS = 30 * 24 * 3_600_000;
const CLOSE_WITHIN_MS = 1_000;

export type AddOptions = {
  /** From `jobId()`. An id that is known in any state, finished ones included, is silently the same job. */
  readonly jobId: string;
  readonly delayMs?: number;
  /** Runs until it is given up for good, delays by the handler not counted. */
  readonly attempts?: number;
};

export type JobCounts = {
  readonly waiting: number;
  readonly active: number;
  readonly delayed: number;
  readonly failed: number;
};

export type JobQueue = {
  readonly name: string;
  /**
   * Resolves when Redis has the job. Rejects within the queue's deadline otherwise; then it is unknown whether the job is there, and
   * adding it again, with the same id, is the cure.
   */
  add(name: string, data: object, options: AddOptions): Promise<void>;
  /** Makes one job every `everyMs`, fleet-wide, however many processes call this; calling it again renews keys that were lost. */
  upsertScheduler(name: string, everyMs: number, attempts?: number): Promise<void>;
  counts(): Promise<JobCounts>;
  /** Id of the job that was done last, by whichever process; `undefined` when none is kept. Another id means that work goes on. */
  lastDone(): Promise<string | undefined>;
  /** Leaves the client open: who opened it closes it, afterwards. */
  close(): Promise<void>;
};

export type QueueOptions = {
  /** A client of purpose `queue-producer`, without `keyPrefix`. */
  readonly client: RedisClient;
  /** `keys.queues`: the braces keep a queue's keys in one slot of a cluster. */
  readonly prefix: string;
  readonly name: string;
  /** How long any call may take. */
  readonly deadlineMs?: number;
  readonly onError?: (error: Error) => void;
};

/**
 * Opens a queue to add jobs to. Returns at once, also while Redis is away.
 *
 * @throws {Error} the client has a `keyPrefix`, or the prefix has no hash tag
 */
export function openQueue({ client, prefix, name, deadlineMs = 1_000, onError = () => {} }: QueueOptions): JobQueue {
  assertUsable(client, prefix);
  let opening: Promise<Queue> | undefined;
  let closed = false;

  // BullMQ initialises a queue once; if that fails (a password changed, a cut at the wrong moment) the object stays dead. So a queue
  // that did not open is thrown away, and the next call makes a new one.
  function open(): Promise<Queue> {
    if (closed) return Promise.reject(new Error(`queue ${name} is closed`));
    opening ??= connect().catch((error: unknown) => {
      opening = undefined;
      throw error;
    });
    return opening;
  }

  async function connect(): Promise<Queue> {
    const queue = new Queue(name, { connection: client, prefix, streams: { events: { maxLen: 1_000 } } });
    queue.on('error', onError);
    try {
      await queue.waitUntilReady();
      return queue;
    } catch (error) {
      await queue.close().catch(onError);
      throw error;
    }
  }

  const call = <T>(what: string, act: (queue: Queue) => Promise<T>) =>
    withDeadline(open().then(act), deadlineMs, `${what} on queue ${name}`);

  return {
    name,
    async add(jobName, data, options) {
      const full: JobsOptions = {
        ...keepFor(100_000),
        ...RETRY,
        jobId: options.jobId,
        attempts: options.attempts ?? 20,
      };
      full.delay = checkedDelay(options.delayMs ?? 0);
      await call('add', (queue) => queue.add(jobName, data, full));
    },
    async upsertScheduler(jobName, everyMs, attempts = 1) {
      const opts = { ...keepFor(10), ...RETRY, attempts };
      await call('upsertJobScheduler', (queue) =>
        queue.upsertJobScheduler(jobName, { every: everyMs }, { name: jobName, data: {}, opts }),
      );
    },
    counts: () =>
      call('getJobCounts', async (queue) => {
        const { waiting = 0, prioritized = 0, active = 0, delayed = 0, failed = 0 } = await queue.getJobCounts();
        return { waiting: waiting + prioritized, active, delayed, failed };
      }),
    lastDone: () => call('getCompleted', async (queue) => (await queue.getCompleted(0, 0))[0]?.id),
    async close() {
      closed = true;
      const closing = opening?.then((queue) => queue.close());
      if (closing) await withDeadline(closing, CLOSE_WITHIN_MS, `close of queue ${name}`).catch(onError);
    },
  };
}

const RETRY = { backoff: { type: BACKOFF }, stackTraceLimit: 1 };

/** Ages are in seconds here, unlike everywhere else. */
function keepFor(count: number): Pick<JobsOptions, 'removeOnComplete' | 'removeOnFail'> {
  const age = KEEP_JOBS_MS / 1_000;
  return { removeOnComplete: { age, count }, removeOnFail: { age, count: Math.max(count, 100) } };
}

/** BullMQ throws on NaN long after the mistake; this says what came in. */
export function checkedDelay(delayMs: number): number {
  if (Number.isNaN(delayMs)) throw new RangeError('delayMs must be a number, got NaN');
  return Math.ceil(Math.min(Math.max(delayMs, 0), DELAY_MAX_MS));
}

/** A `keyPrefix` would come before BullMQ's own prefix in some commands and not in its scripts. */
export function assertUsable(client: RedisClient, prefix: string): void {
  const own = client.options as { keyPrefix?: string; redisOptions?: { keyPrefix?: string } };
  const found = own.keyPrefix || own.redisOptions?.keyPrefix;
  if (found)
    throw new Error(
      `queues need a Redis client without keyPrefix, got ${JSON.stringify(found)}; set Fuseline's prefix instead`,
    );
  if (!/\{[^{}]+\}/.test(prefix)) {
    throw new Error(`the prefix of queues must hold a hash tag such as {fuseline}, got ${JSON.stringify(prefix)}`);
  }
}
