import { type Job as BullJob, DelayedError, UnrecoverableError, Worker } from 'bullmq';
import type { RedisClient } from '../redis/client.js';
import { backoffMs } from '../redis/deadline.js';
import { assertUsable, checkedDelay } from './queue.js';

/** One run of a job. `data` is what a program stored earlier, perhaps an older version of this one: parse it. */
export type Job = {
  readonly id: string;
  readonly name: string;
  readonly data: unknown;
  /** 1 on the first run; runs that ended in `later` are not counted. */
  readonly attempt: number;
  /** Attempts that this job has in all. */
  readonly attempts: number;
  /** Runs begun so far, `later` included: a cap against jobs that wait for ever. */
  readonly starts: number;
  /** Aborted when the worker's time to close is over. The job then runs again elsewhere. */
  readonly signal: AbortSignal;
};

/**
 * How a run ended. Nothing returned means `done`; a throw means `retry`.
 *
 * - `later`: run again after `delayMs`, without having used an attempt.
 * - `retry`: the attempt failed. Without `delayMs` the worker's own back-off applies. The last attempt is the end of the job.
 * - `dead`: no use in trying again. The failed job is kept for a person.
 */
export type Verdict =
  | { readonly verdict: 'done' }
  | { readonly verdict: 'later'; readonly delayMs: number }
  | { readonly verdict: 'retry'; readonly reason: string; readonly delayMs?: number }
  | { readonly verdict: 'dead'; readonly reason: string };

export type WorkerOptions = {
  /** A client of purpose `queue-worker`, without `keyPrefix`. A second connection is made from it for blocking, and closed again. */
  readonly client: RedisClient;
  readonly prefix: string;
  readonly name: string;
  readonly concurrency?: number;
  // biome-ignore lint/suspicious/noConfusingVoidType: a handler that has nothing to say may say nothing
  readonly handle: (job: Job) => Promise<Verdict | void>;
  /** Called once when a job is given up for good: by `dead`, or when its last attempt failed. */
  readonly onDead?: (job: Job, reason: string) => void;
  readonly onError?: (error: Error) => void;
  /** Back-off between attempts: the first wait and the longest, with jitter. */
  readonly backoff?: { readonly firstMs: number; readonly mostMs: number };
  /** How long a job is this worker's without a sign of life (one is given each half of it). By twice that another worker runs it again. */
  readonly lockMs?: number;
  /** How long `close` waits for jobs in progress before it aborts them. */
  readonly closeWithinMs?: number;
};

export type JobWorker = {
  readonly name: string;
  /** Jobs running here now, and `performance.now()` of the last one that ended (of the start, before that). */
  progress(): { readonly active: number; readonly lastFinishedAt: number };
  /** Takes no more jobs, waits for those in progress up to `closeWithinMs`, then aborts them. Never rejects. */
  close(): Promise<void>;
};

const RESTART_AFTER_MS = 1_000;
const ABORT_WITHIN_MS = 2_000;

/** A worker process may die in the middle of the same job many times before anything is wrong with the job. */
const MAX_STALLED = 1_000;

class AttemptFailed extends Error {
  readonly delayMs: number | undefined;
  constructor(reason: string, delayMs: number | undefined) {
    super(reason);
    this.delayMs = delayMs;
  }
}

/**
 * Runs the jobs of one queue until it is closed. Outages of Redis are waited out inside.
 *
 * @throws {Error} the client has a `keyPrefix`, or the prefix has no hash tag
 */
export function openWorker(options: WorkerOptions): JobWorker {
  const {
    client,
    prefix,
    name,
    concurrency = 1,
    backoff = { firstMs: 1_000, mostMs: 60_000 },
    lockMs = 10_000,
  } = options;
  const { onError = () => {}, closeWithinMs = 10_000 } = options;
  assertUsable(client, prefix);
  let active = 0;
  let lastFinishedAt = performance.now();
  let closed = false;
  let worker = start();

  function start(): Worker {
    const settings = {
      backoffStrategy: (made: number, _type?: string, error?: Error) =>
        error instanceof AttemptFailed && error.delayMs !== undefined
          ? checkedDelay(error.delayMs)
          : Math.ceil(backoffMs(made - 1, backoff.firstMs, backoff.mostMs)),
    };
    // Three parameters: BullMQ hands out an abort signal only to processors that declare it.
    const made = new Worker(name, (job, token, signal) => run(job, token, signal), {
      connection: client,
      prefix,
      concurrency,
      settings,
      lockDuration: lockMs,
      stalledInterval: lockMs / 2,
      maxStalledCount: MAX_STALLED,
      runRetryDelay: RESTART_AFTER_MS,
    });
    made.on('error', onError);
    // Like a queue, a worker whose first connection failed stays dead: put another in its place.
    made.waitUntilReady().catch(async (error: Error) => {
      onError(error);
      await made.close(true).catch(onError);
      if (closed) return;
      setTimeout(() => {
        if (!closed) worker = start();
      }, RESTART_AFTER_MS).unref();
    });
    return made;
  }

  async function run(bull: BullJob, token: string | undefined, signal: AbortSignal | undefined): Promise<void> {
    const job = toJob(bull, signal);
    active++;
    try {
      await settle(bull, token, job, await verdictOf(job));
    } finally {
      active--;
      lastFinishedAt = performance.now();
    }
  }

  async function verdictOf(job: Job): Promise<Verdict> {
    try {
      return (await options.handle(job)) ?? { verdict: 'done' };
    } catch (error) {
      // Cut off by our own closing: nobody's failure, so it costs no attempt.
      if (job.signal.aborted) return { verdict: 'later', delayMs: 0 };
      return { verdict: 'retry', reason: error instanceof Error ? error.message : String(error) };
    }
  }

  async function settle(bull: BullJob, token: string | undefined, job: Job, verdict: Verdict): Promise<void> {
    switch (verdict.verdict) {
      case 'done':
        return;
      case 'later':
        // BullMQ takes an instant of this process's own clock, and subtracts that clock again.
        await bull.moveToDelayed(Date.now() + checkedDelay(verdict.delayMs), token);
        throw new DelayedError();
      case 'retry':
        if (job.attempt >= job.attempts) options.onDead?.(job, verdict.reason);
        throw new AttemptFailed(verdict.reason, verdict.delayMs);
      case 'dead':
        options.onDead?.(job, verdict.reason);
        throw new UnrecoverableError(verdict.reason);
    }
  }

  return {
    name,
    progress: () => ({ active, lastFinishedAt }),
    async close() {
      closed = true;
      const closing = worker.close().catch(onError);
      if (await settledWithin(closing, closeWithinMs)) return;
      worker.cancelAllJobs('the worker is closing');
      if (await settledWithin(closing, ABORT_WITHIN_MS)) return;
      onError(new Error(`worker of queue ${name} left ${active} jobs behind: they did not end when aborted`));
      await settledWithin(worker.getBackend().close(true).catch(onError), ABORT_WITHIN_MS);
    },
  };
}

function toJob(bull: BullJob, signal: AbortSignal | undefined): Job {
  return {
    id: bull.id ?? '',
    name: bull.name,
    data: bull.data,
    attempt: bull.attemptsMade + 1,
    attempts: bull.opts.attempts ?? 1,
    starts: bull.attemptsStarted,
    signal: signal ?? new AbortController().signal,
  };
}

function settledWithin(promise: Promise<unknown>, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), ms);
    promise.finally(() => {
      clearTimeout(timer);
      resolve(true);
    });
  });
}
