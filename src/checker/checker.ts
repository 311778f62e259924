import { createAnnouncer } from '../announce.js';
import { record } from '../channel/record.js';
import { readBlockedNow } from '../channel/snapshot.js';
import type { ChannelBatch } from '../domain/batch.js';
import { canonicalChannel } from '../domain/channel-name.js';
import { classify } from '../domain/classify.js';
import { type OutcomeInput, parseOutcome } from '../domain/outcome.js';
import { type Log, silent } from '../observe/log.js';
import { type Count, uncounted } from '../observe/metrics.js';
import { openQueues } from '../queue/queues.js';
import { createReader, type Reader } from '../reader/index.js';
import { closeRedis, openRedis, type RedisClient } from '../redis/client.js';
import { withDeadline } from '../redis/deadline.js';
import { Keys } from '../redis/keys.js';
import { createLiveRules } from '../rules/live.js';
import type { LiveRules } from '../rules/port.js';
import { DirectLog, type DirectResult } from './direct-log.js';

const CALL_DEADLINE_MS = 2_000;

export type CheckerOptions = {
  /** `redis://…`, `redis-cluster://…` or `redis-sentinel://…`; opened and closed here. */
  readonly url: string;
  /** Where the queues live; default: `url`. */
  readonly queueUrl?: string;
  readonly prefix?: string;
  /** Default: the rules in `fuseline:config`, followed here. Yours are not closed here. */
  readonly rules?: LiveRules;
  /** How long `record` waits for Redis before it answers from memory; default 1,000. */
  readonly deadlineMs?: number;
  /** Outcomes older than this are dropped; default 300,000, as in the workers. */
  readonly freshForMs?: number;
  readonly log?: Log;
  readonly count?: Count;
};

/**
 * - `recorded`, `succeeded`: the channel's window, slots recorded and successes among them (0, 0: healthy, nothing remembered); where
 *   the call blocked the channel, the window that decided.
 * - `justBlocked`: this call blocked the channel. Of all processes one is told so.
 * - `blocked`: the channel is blocked now.
 * - `error`: Redis did not answer in time, or the outcome was refused; the numbers are then 0 and `blocked` is what memory knows. An
 *   outcome that got no answer is still on its way.
 */
export type Checked = {
  readonly recorded: number;
  readonly succeeded: number;
  readonly justBlocked: boolean;
  readonly blocked: boolean;
  readonly error?: string;
};

export type Checker<Channel extends string = string> = Pick<
  Reader<Channel>,
  'isBlocked' | 'visible' | 'select' | 'stateOf' | 'levelOf' | 'on' | 'ready' | 'status'
> & {
  /** Judges one outcome. Has a deadline and never rejects. */
  record(outcome: OutcomeInput<Channel>): Promise<Checked>;
  /** Asks Redis itself, for processes too short-lived to have a memory. @throws {DeadlineError} no answer within `deadlineMs` */
  isBlockedNow(channel: Channel, deadlineMs?: number): Promise<boolean>;
  /** Waits up to `withinMs` for outcomes and announcements on their way, then closes what was opened here. */
  close(withinMs?: number): Promise<void>;
};

/**
 * Direct mode, for small users: no outcome log and no outcome worker; this process calls the script itself. Transitions are announced as
 * ever: the channel is put on the agenda before a call that can block it, so that a watcher tells even what this process dies before
 * telling. Resolves when the rules are read, or after a second if Redis is away. Ends of blocks need a recovery watcher and alerts need an alert worker somewhere (`fuseline start recovery alerts`).
 */
export async function createChecker<Channel extends string = string>(
  options: CheckerOptions,
): Promise<Checker<Channel>> {
  const { url, deadlineMs = 1_000, freshForMs = 300_000, log = silent, count = uncounted } = options;
  const keys = new Keys(options.prefix);
  const client = openRedis(url, 'commands');
  const rules = options.rules ?? (await createLiveRules({ client, keys, logger: log, startWithinMs: 1_000 }));
  const queueClient: RedisClient = openRedis(options.queueUrl ?? url, 'queue-producer');
  const queues = openQueues({ client: queueClient, prefix: keys.queues });
  const announcer = createAnnouncer({ client, keys, queues, log, count });
  const reader = createReader<Channel>({ url, prefix: options.prefix, rules, logger: log });
  const announcing = new Set<Promise<unknown>>();
  const direct = new DirectLog({
    judge,
    freshForMs,
    onDrop: (channel, outcomes) => log.warn({ channel, outcomes }, 'outcomes given up: Redis was away too long'),
  });

  async function judge(channel: string, batch: ChannelBatch): Promise<DirectResult> {
    // Only a failure can begin something; whatever a success can end is on the agenda already.
    const marked = /[034]/.test(batch.results) ? await announcer.mark([channel]) : [];
    const call = record(client, keys, channel, rules.policyFor(channel), freshForMs, batch);
    const { result, outbox } = await withDeadline(call, CALL_DEADLINE_MS, 'record.lua');
    if (outbox.length > 0) {
      const [score] = marked.length > 0 ? marked : await announcer.mark([channel]);
      const telling = announcer.announce(channel, score!, { pushed: result.pushed, outbox });
      announcing.add(telling);
      void telling.finally(() => announcing.delete(telling));
    }
    const own = outbox.slice(outbox.length - result.pushed);
    return {
      ...result,
      justBlocked: own.some(({ kind }) => kind === 'blocked' || kind === 'relapsed' || kind === 'paused'),
    };
  }

  function refused(channel: string, error: string): Checked {
    return { recorded: 0, succeeded: 0, justBlocked: false, blocked: reader.isBlocked(channel as Channel), error };
  }

  return {
    isBlocked: reader.isBlocked,
    visible: reader.visible,
    select: reader.select,
    stateOf: reader.stateOf,
    levelOf: reader.levelOf,
    on: reader.on,
    ready: reader.ready,
    status: reader.status,

    async record(input) {
      const parsed = parseOutcome(input);
      if (!parsed.ok) return refused(String((input as { channel?: unknown } | null)?.channel), parsed.reason);
      const { channel } = parsed.outcome;
      const policy = rules.policyFor(channel);
      const kind = classify(policy, parsed.outcome);
      if (policy.mode === 'off' || kind === 'ignored')
        return { recorded: 0, succeeded: 0, justBlocked: false, blocked: reader.isBlocked(channel as Channel) };
      try {
        const result = await withDeadline(direct.add(parsed.outcome, kind), deadlineMs, 'record.lua');
        if (result === undefined) return refused(channel, 'given up: Redis was away too long');
        const { recorded, succeeded, justBlocked, blocked } = result;
        return { recorded, succeeded, justBlocked, blocked };
      } catch (error) {
        return refused(channel, (error as Error).message);
      }
    },

    isBlockedNow: (channel, ms = 1_000) => readBlockedNow(client, keys, canonicalChannel(channel), ms),

    async close(withinMs = 5_000) {
      await direct.close(withinMs);
      await Promise.all(announcing);
      await queues.close();
      await reader.close();
      if (options.rules === undefined) await rules.close();
      await Promise.all([closeRedis(client), closeRedis(queueClient)]);
    },
  };
}
