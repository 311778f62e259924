import type { Adapter, Delivery, Target } from '../alert/adapter.js';
import { ADAPTERS } from '../alert/adapters.js';
import type { Poster } from '../alert/post.js';
import type { Receiver } from '../domain/receiver.js';
import type { Log } from '../observe/log.js';
import type { Job, Verdict } from '../queue/worker.js';
import { isIncurable, sleep } from '../redis/deadline.js';
import type { LiveRules } from '../rules/port.js';
import { resolveReference, UnresolvedReference } from '../rules/reference.js';
import { DeliveryData } from './delivery.js';
import type { Tally } from './tally.js';
import type { Claim, Told } from './told.js';

export type DeliverOptions = {
  readonly told: Told;
  readonly rules: Pick<LiveRules, 'receivers'>;
  readonly poster: Poster;
  readonly tally: Tally;
  readonly log: Log;
  /** Where `env:NAME` is looked up. */
  readonly env: Readonly<Record<string, string | undefined>>;
};

/** Waits that count no attempt end by themselves; this ends what should not happen. */
const MAX_STARTS = 10_000;
/** While Redis does not say what the receiver knows, nothing is sent. */
const OUTAGE_WAIT_MS = 2_000;
/** What waits for another message asks less and less often: an endpoint may be away for a day. */
const WAIT_MOST_MS = 30_000;
const GONE_WAIT_MS = 30_000;
/** The end of a block may be handed out a moment before its beginning, by another process. */
const UNPROMPTED_LOOKS = 3;
const UNPROMPTED_WAIT_MS = 1_000;
/** Beyond the deadline of the request: how long a channel stays reserved for a process that died. */
const HOLD_MARGIN_MS = 3_000;
const REMEMBER_TRIES = 4;

type Attempt = {
  readonly job: Job;
  readonly data: DeliveryData;
  readonly receiver: Receiver;
  readonly run: string;
  /** `performance.now()`, before the turn was asked for. */
  readonly begunAt: number;
};

/**
 * Makes the handler of the queue of one receiver: one attempt to deliver one message. Reads the receiver anew each time, so that a
 * corrected URL helps the messages that wait.
 *
 * Older news is dropped, never sent, once newer news of the channel was told or waits to be told: the newest message tells the state,
 * and the end of a block says so when its beginning had not arrived.
 */
export function createDeliver(options: DeliverOptions): (job: Job) => Promise<Verdict> {
  const { told, rules, tally, log } = options;

  return async (job) => {
    const parsed = DeliveryData.safeParse(job.data);
    if (!parsed.success) return { verdict: 'dead', reason: 'the job holds no message that this version can read' };
    if (job.starts > MAX_STARTS) return { verdict: 'dead', reason: `waited ${MAX_STARTS} times for its turn` };
    const data = parsed.data;
    const receiver = rules.receivers().find(({ name }) => name === data.receiver);
    // Taken out of the rules at this moment: its queue stays, for when it comes back.
    if (!receiver) return { verdict: 'later', delayMs: GONE_WAIT_MS };
    const attempt = { job, data, receiver, run: `${job.id}:${job.starts}`, begunAt: performance.now() };
    const claim = await claimTurn(attempt);
    if ('verdict' in claim && (claim.verdict === 'send' || claim.verdict === 'both'))
      return send(attempt, claim.verdict === 'both');
    return withoutSending(attempt, claim);
  };

  async function claimTurn({ data, receiver, run }: Attempt): Promise<Claim | { readonly error: unknown }> {
    try {
      const holdMs = receiver.timeoutMs + HOLD_MARGIN_MS;
      return await told.claim(receiver.name, data.transition, run, holdMs, ADAPTERS[receiver.type].budget);
    } catch (error) {
      return { error };
    }
  }

  function withoutSending({ job, data, receiver }: Attempt, claim: Claim | { readonly error: unknown }): Verdict {
    if ('error' in claim) {
      if (isIncurable(claim.error)) throw claim.error;
      return { verdict: 'later', delayMs: jittered(OUTAGE_WAIT_MS) };
    }
    if (claim.verdict === 'wait')
      return { verdict: 'later', delayMs: jittered(Math.max(claim.ms, Math.min(job.starts * 100, WAIT_MOST_MS))) };
    if (claim.verdict === 'unprompted' && job.starts < UNPROMPTED_LOOKS)
      return { verdict: 'later', delayMs: UNPROMPTED_WAIT_MS };
    const merged = claim.verdict === 'older' || claim.verdict === 'superseded';
    tally.add(receiver.name, merged ? 'merged' : claim.verdict === 'unprompted' ? 'unprompted' : 'duplicate');
    log.info({ ...facts(data), receiver: receiver.name, because: claim.verdict }, 'alert not sent');
    return { verdict: 'done' };
  }

  async function send(attempt: Attempt, untold: boolean): Promise<Verdict> {
    const { job, data, receiver } = attempt;
    // This process stood still since it asked: the turn may be over before the message is out, and another may have told newer news.
    if (performance.now() - attempt.begunAt > HOLD_MARGIN_MS) return release(attempt, { verdict: 'later', delayMs: 0 });
    const delivery = await attemptOnce(attempt, untold, options);
    if (delivery.outcome === 'delivered') return remember(attempt);
    // Our own end, not the receiver's failure.
    if (job.signal.aborted) return release(attempt, { verdict: 'later', delayMs: 0 });
    if (delivery.outcome === 'permanent') return giveUp(attempt, { verdict: 'dead', reason: delivery.reason });
    const delayMs = delivery.afterMs === undefined ? undefined : jittered(delivery.afterMs);
    const retry: Verdict = { verdict: 'retry', reason: delivery.reason, ...(delayMs !== undefined && { delayMs }) };
    if (job.attempt >= job.attempts) return giveUp(attempt, retry);
    tally.add(receiver.name, 'retried');
    log.warn(
      { ...facts(data), receiver: receiver.name, attempt: job.attempt, reason: delivery.reason },
      'alert not delivered yet',
    );
    return release(attempt, retry, delivery.holdAll ? delivery.afterMs : undefined);
  }

  /** The message is out. If Redis cannot be told so, it goes out again, with the same id: better than a silent gap. */
  async function remember({ job, data, receiver, run }: Attempt): Promise<Verdict> {
    tally.add(receiver.name, 'delivered');
    log.info({ ...facts(data), receiver: receiver.name, attempt: job.attempt }, 'alert delivered');
    for (let tries = 1; ; tries++) {
      try {
        await told.told(receiver.name, data.transition, run);
        return { verdict: 'done' };
      } catch {
        if (tries >= REMEMBER_TRIES || job.signal.aborted) return { verdict: 'later', delayMs: OUTAGE_WAIT_MS };
        await sleep(jittered(200 * 2 ** tries), job.signal);
      }
    }
  }

  async function giveUp({ data, receiver, run }: Attempt, verdict: Verdict): Promise<Verdict> {
    // Left unsaid, the end of this block would be told to somebody who never heard of it: no reason to keep the job alive.
    await told
      .dead(receiver.name, data.transition, run)
      .catch((error: Error) => log.warn({ error: error.message }, 'told.lua failed'));
    return verdict;
  }

  async function release({ data, receiver, run }: Attempt, verdict: Verdict, waitMs?: number): Promise<Verdict> {
    // Not released, the turn ends by itself.
    await told.release(receiver.name, data.transition, run, waitMs).catch(() => {});
    return verdict;
  }
}

async function attemptOnce(
  { job, data, receiver }: Attempt,
  untold: boolean,
  { poster, env }: DeliverOptions,
): Promise<Delivery> {
  const adapter: Adapter = ADAPTERS[receiver.type];
  const { id, transition, message } = data;
  try {
    const request = adapter.request({ id, transition, message, untold }, resolved(receiver, env), Date.now());
    const answer = await poster.post(request, { timeoutMs: receiver.timeoutMs, signal: job.signal });
    if ('status' in answer) return adapter.judge(answer, Date.now());
    return { outcome: answer.refused ? 'permanent' : 'retry', reason: answer.reason };
  } catch (error) {
    // A variable or file that is missing can be put there: the messages wait for it.
    const outcome = error instanceof UnresolvedReference ? 'retry' : 'permanent';
    return { outcome, reason: error instanceof Error ? error.message : 'the request could not be made' };
  }
}

function resolved({ url, secret, mentions, keyword }: Receiver, env: DeliverOptions['env']): Target {
  return {
    url: resolveReference(url, env),
    mentions,
    ...(secret !== undefined && { secret: resolveReference(secret, env) }),
    ...(keyword !== undefined && { keyword }),
  };
}

/** Never sooner than asked; a little later, so that what waited together does not come back together. */
function jittered(ms: number): number {
  return ms + Math.random() * Math.min(ms * 0.2, 2_000);
}

function facts({ transition: { channel, epoch, incident, kind } }: DeliveryData) {
  return { channel, epoch, incident, kind };
}
