import { BlockEnd } from '../domain/transition.js';
import type { Queues } from '../queue/queues.js';
import { type Job, openWorker, type Verdict } from '../queue/worker.js';
import type { RedisClient } from '../redis/client.js';
import { sleep } from '../redis/deadline.js';
import { createFloorWatch } from './floors.js';
import { type Chore, housekeep } from './housekeeping.js';
import { endBlock, sweep, type Watching } from './sweep.js';
import { createTidier } from './tidying.js';

/** How often the agenda is swept: bounds how late an end is told when its own job was lost. */
export const SWEEP_EVERY_MS = 1_000;
/** How often each watcher puts the schedulers back: their keys may be lost in a flush or a failover. */
export const RENEW_EVERY_MS = 20_000;
/** How soon after a failure it is tried again: that also tells when Redis takes writes again. */
const RENEW_AGAIN_MS = 2_000;
/** An error of the queue says so long why no sweep comes: BullMQ asks again after 15 s. */
const ERROR_TELLS_MS = 20_000;
/** Housekeeping is due so often; a watcher whose runs find nothing rests longer and longer, up to so long. */
const HOUSEKEEPING_MS = { every: 15_000, most: 240_000 };

export type WatcherOptions = Watching & {
  readonly queues: Queues;
  /** Of purpose `queue-worker`. */
  readonly workerClient: RedisClient;
  readonly chores: readonly Chore[];
  /** Channels that have traffic, the busiest first; see `FloorWatchOptions` and `TidierOptions`. */
  readonly seen?: () => Promise<Iterable<string>>;
};

export type Watcher = {
  /** `performance.now()` of the last sweep that this process finished, and of the last one that anybody's schedule began here. */
  progress(): {
    readonly lastSweepAt: number /** Why Redis does not take the schedules; a restart would not cure it. */;
    readonly trouble?: string;
  };
  /** Runs until the signal, then ends what is in progress. */
  run(signal: AbortSignal): Promise<void>;
};

/**
 * The recovery watcher: a delayed job for each block's end, and a scheduled sweep for whatever that job missed. Any number of watchers
 * may run; the script lets one of them win, and one schedule exists however many renew it.
 */
export function createWatcher(options: WatcherOptions): Watcher {
  const { queues, workerClient, keys, log, count, chores } = options;
  const floors = createFloorWatch(options);
  const tidier = createTidier(options);
  let lastSweepAt = performance.now();
  let trouble: string | undefined;
  let queueError = { at: Number.NEGATIVE_INFINITY, message: '' };
  let idleRuns = 0;
  let restUntil = 0;

  async function onSweep(): Promise<void> {
    try {
      const report = await sweep(options);
      lastSweepAt = performance.now();
      count('fuseline_sweeps_total', { result: report.failed > 0 ? 'partial' : 'done' });
      count('fuseline_swept_channels_total', {}, report.looked);
      await lookAtFloors();
      await tidyLogs();
    } catch (error) {
      count('fuseline_sweeps_total', { result: 'failed' });
      throw error;
    }
  }

  /** After the channels: what ends a shortage is seen before it is told. A fault here keeps no block from ending. */
  async function lookAtFloors(): Promise<void> {
    try {
      await floors.look();
    } catch (error) {
      log.warn({ err: error }, 'the floors of groups could not be looked at: the next sweep tries again');
    }
  }

  /** With the sweeps, which one watcher makes at a time: housekeeping rests too long for the shortest spans. */
  async function tidyLogs(): Promise<void> {
    try {
      const removed = await tidier.turn();
      if (removed > 0) count('fuseline_housekeeping_removed_total', { what: 'calls of long ago' }, removed);
    } catch (error) {
      log.warn({ err: error }, 'call logs could not be tidied: the next sweep tries again');
    }
  }

  async function onRecovery(job: Job): Promise<Verdict | undefined> {
    const end = BlockEnd.safeParse(job.data);
    if (!end.success) return { verdict: 'dead', reason: `not a recovery job: ${end.error.message}` };
    const leftMs = await endBlock(options, end.data);
    if (leftMs === 0) return undefined;
    // A little early (clocks differ): wait here rather than pay the queue's own latency once more.
    if (leftMs <= 250) {
      await sleep(leftMs + 1, job.signal);
      if ((await endBlock(options, end.data)) === 0) return undefined;
    }
    return { verdict: 'later', delayMs: leftMs };
  }

  async function onHousekeeping(): Promise<void> {
    if (performance.now() < restUntil) return;
    const report = await housekeep(chores);
    const removed = Object.values(report).reduce((sum, n) => sum + n, 0);
    for (const [what, n] of Object.entries(report)) count('fuseline_housekeeping_removed_total', { what }, n);
    if (removed > 0) log.info(report, 'housekeeping removed what nothing needs any more');
    idleRuns = removed > 0 ? 0 : idleRuns + 1;
    const { every, most } = HOUSEKEEPING_MS;
    // Half a period less, or the run that should come after the rest would come a little too early.
    restUntil = performance.now() + Math.min(most, every * 2 ** Math.min(idleRuns, 10)) - every / 2;
  }

  async function renew(): Promise<void> {
    try {
      await queues.queue('sweep').upsertScheduler('sweep', SWEEP_EVERY_MS);
      await queues.queue('housekeeping').upsertScheduler('housekeeping', HOUSEKEEPING_MS.every, 5);
      trouble = undefined;
    } catch (error) {
      trouble = `Redis does not take the schedules: ${error instanceof Error ? error.message : String(error)}`;
      log.warn({ err: error }, 'the schedules could not be renewed: without them no sweep runs; trying again');
    }
  }

  /** A new connection may lead to a server that lost the schedules: no reason to wait for the next turn. */
  async function keepSchedules(signal: AbortSignal): Promise<void> {
    let turn = new AbortController();
    const onReady = () => turn.abort();
    workerClient.on('ready', onReady);
    while (!signal.aborted) {
      turn = new AbortController();
      await renew();
      const restMs = trouble === undefined ? RENEW_EVERY_MS : RENEW_AGAIN_MS;
      await sleep(restMs, AbortSignal.any([signal, turn.signal]));
    }
    workerClient.off('ready', onReady);
  }

  return {
    progress() {
      const { at, message } = queueError;
      const failing = at > lastSweepAt && performance.now() - at < ERROR_TELLS_MS;
      const why = trouble ?? (failing ? `Redis does not take the queues: ${message}` : undefined);
      return { lastSweepAt, ...(why === undefined ? {} : { trouble: why }) };
    },
    async run(signal) {
      const common = {
        client: workerClient,
        prefix: keys.queues,
        onError: (error: Error) => {
          queueError = { at: performance.now(), message: error.message };
          log.debug({ err: error }, 'queue');
        },
      };
      const backoff = { firstMs: 200, mostMs: 5_000 };
      const workers = [
        openWorker({ ...common, name: 'recovery', concurrency: 32, handle: onRecovery, backoff }),
        openWorker({ ...common, name: 'sweep', handle: onSweep, backoff }),
        openWorker({
          ...common,
          name: 'housekeeping',
          handle: onHousekeeping,
          backoff: { firstMs: 1_000, mostMs: 60_000 },
        }),
      ];
      await keepSchedules(signal);
      await Promise.all(workers.map((worker) => worker.close()));
    },
  };
}
