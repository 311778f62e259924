import type { BlockEnd, Transition } from '../domain/transition.js';
import type { RedisClient } from '../redis/client.js';
import { jobId, notifyJobId } from './job-id.js';
import { type JobQueue, openQueue } from './queue.js';

/** The fixed queues; receivers have one each, named by {@link deliverQueue}. */
export type QueueName = 'recovery' | 'notify' | 'sweep' | 'housekeeping';

/** One queue per receiver: a dead endpoint, or a rate limit, holds up nobody else. */
export function deliverQueue(receiver: string): `deliver-${string}` {
  return `deliver-${receiver}`;
}

/** Every queue that this process adds jobs to, each opened when it is first used. */
export type Queues = {
  /** A look at the channel when its block ends. The id holds `until`, so that a moved end gets a job of its own. */
  addRecovery(job: BlockEnd & { readonly delayMs: number }): Promise<void>;
  /** Makes a transition known to people. Idempotent: see `notifyJobId`. */
  addNotify(transition: Transition): Promise<void>;
  /** Any queue by name, to add jobs or a scheduler. */
  queue(name: QueueName | `deliver-${string}`): JobQueue;
  /** Closes the queues, not the client. Close consumers first: their handlers add follow-up jobs. */
  close(): Promise<void>;
};

export type QueuesOptions = {
  readonly client: RedisClient;
  /** `keys.queues`. */
  readonly prefix: string;
  readonly deadlineMs?: number;
  readonly onError?: (error: Error) => void;
};

/**
 * Opens the queues. Returns at once, also while Redis is away; then each call rejects within its deadline.
 *
 * @throws {Error} the client has a `keyPrefix`, or the prefix has no hash tag
 */
export function openQueues(options: QueuesOptions): Queues {
  const opened = new Map<string, JobQueue>();
  const queue = (name: string): JobQueue => {
    const found = opened.get(name) ?? openQueue({ ...options, name });
    opened.set(name, found);
    return found;
  };
  queue('notify');
  return {
    queue,
    addRecovery: ({ delayMs, ...data }) =>
      queue('recovery').add('recover', data, {
        jobId: jobId('recovery', data.channel, data.block, data.until),
        delayMs,
      }),
    // Never given up within a day: fan-out fails only when Redis or our own code does.
    addNotify: (transition) =>
      queue('notify').add(transition.kind, transition, { jobId: notifyJobId(transition), attempts: 1_000 }),
    async close() {
      await Promise.all([...opened.values()].map((each) => each.close()));
    },
  };
}
