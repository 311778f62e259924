import { isTold, render } from '../alert/render.js';
import { glob } from '../domain/glob.js';
import { awaitsRelease } from '../domain/policy.js';
import type { Receiver, Route } from '../domain/receiver.js';
import { Transition } from '../domain/transition.js';
import type { Log } from '../observe/log.js';
import { notifyJobId } from '../queue/job-id.js';
import { deliverQueue, type Queues } from '../queue/queues.js';
import type { Job, Verdict } from '../queue/worker.js';
import type { LiveRules } from '../rules/port.js';
import type { DeliveryData } from './delivery.js';
import type { Told } from './told.js';

export type FanOutOptions = {
  readonly queues: Pick<Queues, 'queue'>;
  readonly told: Told;
  readonly rules: Pick<LiveRules, 'receivers' | 'routes' | 'policyFor'>;
  readonly log: Log;
  /** Attempts that each delivery has. */
  readonly attempts: number;
};

/**
 * Handles one job of the queue `notify`: finds the receivers, writes the text for each, once, and gives each one job. Run again
 * after a failure it changes nothing that it did before, because the jobs have the same ids.
 */
export function createFanOut({ queues, told, rules, log, attempts }: FanOutOptions): (job: Job) => Promise<Verdict> {
  async function give(receiver: Receiver, transition: Transition): Promise<void> {
    const id = notifyJobId(transition, receiver.name);
    const { locale, timeZone } = receiver;
    const isReleasedByHand = awaitsRelease(rules.policyFor(transition.channel));
    const message = render(transition, { locale, timeZone, isReleasedByHand });
    const data: DeliveryData = { v: 1, receiver: receiver.name, id, transition, message };
    // First what is known of the channel, then the job: else an older message, retried at this moment, would pass for the newest.
    await told.offer(receiver.name, transition);
    await queues.queue(deliverQueue(receiver.name)).add(transition.kind, data, { jobId: id, attempts });
  }

  return async (job) => {
    const parsed = Transition.safeParse(job.data);
    if (!parsed.success) return { verdict: 'dead', reason: 'the job holds no transition that this version can read' };
    const transition = parsed.data;
    const { channel, epoch, incident, kind } = transition;
    const receivers = isTold(kind) ? receiversFor(transition, rules) : [];
    const results = await Promise.allSettled(receivers.map((receiver) => give(receiver, transition)));
    const failed = results.find((result) => result.status === 'rejected');
    if (failed) throw failed.reason;
    log.debug({ channel, epoch, incident, kind, receivers: receivers.map(({ name }) => name) }, 'alert handed out');
    return { verdict: 'done' };
  };
}

/** The receivers of every route that matches, each once. */
export function receiversFor(
  transition: Pick<Transition, 'channel' | 'kind' | 'group'>,
  rules: FanOutOptions['rules'],
): Receiver[] {
  const group = transition.group?.name ?? rules.policyFor(transition.channel).group;
  const names = new Set(
    rules
      .routes()
      .filter((route) => matches(route, transition, group))
      .flatMap((route) => route.to),
  );
  return rules.receivers().filter(({ name }) => names.has(name));
}

function matches(
  { match }: Route,
  { channel, kind, group: news }: Pick<Transition, 'channel' | 'kind' | 'group'>,
  group: string | undefined,
): boolean {
  if (match.group !== undefined && match.group !== group) return false;
  if (match.kinds !== undefined && !match.kinds.includes(kind)) return false;
  // News of a group concerns the channels that it names.
  const channels = news ? news.shown.map((one) => one.channel) : [channel];
  return match.channel === undefined || channels.some(glob(match.channel.normalize('NFC')));
}
