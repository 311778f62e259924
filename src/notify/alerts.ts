import { createPoster } from '../alert/post.js';
import type { Log } from '../observe/log.js';
import type { JobCounts } from '../queue/queue.js';
import { deliverQueue, type QueueName, type Queues } from '../queue/queues.js';
import { type Job, type JobWorker, openWorker, type WorkerOptions } from '../queue/worker.js';
import type { RedisClient } from '../redis/client.js';
import { sleep } from '../redis/deadline.js';
import type { Keys } from '../redis/keys.js';
import type { LiveRules } from '../rules/port.js';
import { createDeliver } from './deliver.js';
import { DeliveryData } from './delivery.js';
import { createFanOut } from './fan-out.js';
import { type AlertCount, createTally } from './tally.js';
import { createTold } from './told.js';

export type AlertsOptions = {
  /** To hand jobs out; the caller closes it, after `run` has ended. */
  readonly queues: Queues;
  /** A client of purpose `queue-worker`. */
  readonly workerClient: RedisClient;
  /** A client of purpose `commands`, for what receivers were told. */
  readonly redis: RedisClient;
  readonly keys: Keys;
  readonly rules: LiveRules;
  readonly log: Log;
  /** Receivers inside the own network: opens private addresses. */
  readonly allowPrivate?: boolean;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Attempts of each delivery, and the back-off between them. The default spreads them over about a day. */
  readonly retry?: { readonly attempts: number; readonly firstMs: number; readonly mostMs: number };
  /** At the end, how long messages in flight may take before they are left to another process. */
  readonly closeWithinMs?: number;
};

export type AlertsStatus = {
  readonly counts: Readonly<Record<string, Readonly<Record<AlertCount, number>>>>;
  /** Jobs by queue, as last seen. */
  readonly jobs: Readonly<Record<string, JobCounts>>;
  /** `performance.now()` of the last moment at which nothing waited, or what waited was being worked on. */
  readonly lastProgressAt: number;
  /** Why nothing is known at the moment: no stall. */
  readonly paused?: string;
};

export type Alerts = {
  /** Hands out and delivers alerts until the signal; resolves when nothing is in flight. Outages are waited out inside. */
  run(signal: AbortSignal): Promise<void>;
  status(): AlertsStatus;
};

type Lane = { readonly queue: QueueName | `deliver-${string}`; readonly worker: JobWorker };

const RETRY = { attempts: 140, firstMs: 2_000, mostMs: 15 * 60_000 };
const FAN_OUT_CONCURRENCY = 4;
/** Messages on their way to one receiver; of one channel never more than one. */
const DELIVER_CONCURRENCY = 4;
const LOOK_EVERY_MS = 5_000;

/** The alert flow: `notify` jobs in, messages out, one queue and one worker per receiver of the rules in force. */
export function createAlerts(options: AlertsOptions): Alerts {
  const {
    queues,
    workerClient,
    redis,
    keys,
    rules,
    log,
    allowPrivate = false,
    env = process.env,
    retry = RETRY,
    closeWithinMs = 5_000,
  } = options;
  const told = createTold(redis, keys);
  const tally = createTally();
  let jobs: Record<string, JobCounts> = {};
  let lastProgressAt = performance.now();
  let paused: string | undefined;

  const work = (more: Pick<WorkerOptions, 'name' | 'handle' | 'onDead' | 'concurrency' | 'backoff'>) =>
    openWorker({
      client: workerClient,
      prefix: keys.queues,
      closeWithinMs,
      onError: (error) => log.warn({ queue: more.name, error: error.message }, 'alert queue'),
      ...more,
    });

  /** Everything that runs, opened in order; closed in the order in which one hands work to the next. */
  function start() {
    const poster = createPoster({ allowPrivate });
    const deliver = createDeliver({ told, rules, poster, tally, log, env });
    const receivers = new Map<string, JobWorker>();
    const closing = new Set<Promise<void>>();
    const notify = work({
      name: 'notify',
      concurrency: FAN_OUT_CONCURRENCY,
      handle: createFanOut({ queues, told, rules, log, attempts: retry.attempts }),
      onDead: (job, reason) =>
        log.error({ job: job.id, reason }, 'transition not handed out: kept in the queue notify'),
    });

    function close(name: string, worker: JobWorker): void {
      receivers.delete(name);
      const ending = worker.close().finally(() => closing.delete(ending));
      closing.add(ending);
    }

    function follow(): void {
      const wanted = new Set(rules.receivers().map(({ name }) => name));
      for (const [name, worker] of receivers) if (!wanted.has(name)) close(name, worker);
      for (const name of wanted) {
        if (receivers.has(name)) continue;
        const onDead = (job: Job, reason: string) => bury(name, job, reason);
        const worker = work({
          name: deliverQueue(name),
          concurrency: DELIVER_CONCURRENCY,
          handle: deliver,
          onDead,
          backoff: retry,
        });
        receivers.set(name, worker);
      }
    }

    follow();
    const unfollow = rules.onChange(follow);
    return {
      lanes: (): Lane[] => [
        { queue: 'notify', worker: notify },
        ...[...receivers].map(([name, worker]) => ({ queue: deliverQueue(name), worker })),
      ],
      async stop() {
        unfollow();
        await notify.close();
        for (const [name, worker] of receivers) close(name, worker);
        await Promise.all(closing);
        await poster.close();
      },
    };
  }

  function bury(receiver: string, job: Job, reason: string): void {
    tally.add(receiver, 'dead');
    const parsed = DeliveryData.safeParse(job.data);
    const { channel, epoch, incident, kind } = parsed.success ? parsed.data.transition : {};
    log.error(
      { channel, epoch, incident, kind, receiver, job: job.id, reason },
      'alert given up: kept as a failed job',
    );
  }

  async function look(lanes: readonly Lane[], lookedAt: number): Promise<void> {
    const seen: Record<string, JobCounts> = {};
    try {
      for (const { queue } of lanes) seen[queue] = await queues.queue(queue).counts();
    } catch {
      paused = 'Redis does not answer';
      return;
    }
    jobs = seen;
    paused = undefined;
    const stuck = lanes.some(({ queue, worker }) => {
      const { active, lastFinishedAt } = worker.progress();
      return (seen[queue]?.waiting ?? 0) > 0 && active === 0 && lastFinishedAt < lookedAt;
    });
    if (!stuck) lastProgressAt = performance.now();
  }

  return {
    async run(signal) {
      const running = start();
      let lookedAt = performance.now();
      while (!signal.aborted) {
        await look(running.lanes(), lookedAt);
        lookedAt = performance.now();
        await sleep(LOOK_EVERY_MS, signal);
      }
      await running.stop();
    },
    status: () => ({ counts: tally.counts(), jobs, lastProgressAt, ...(paused !== undefined && { paused }) }),
  };
}
