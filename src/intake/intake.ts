import type { Announcer } from '../announce.js';
import { type Recorded, record } from '../channel/record.js';
import { type ChannelBatch, cutBatch } from '../domain/batch.js';
import type { Policy } from '../domain/policy.js';
import type { Log } from '../observe/log.js';
import type { Count } from '../observe/metrics.js';
import type { RedisClient } from '../redis/client.js';
import { isIncurable, withDeadline } from '../redis/deadline.js';
import type { Keys } from '../redis/keys.js';
import type { LiveRules } from '../rules/port.js';
import type { DeadLetter, LogBatch, LogReader } from '../transport/port.js';
import { ChannelLimit } from './channel-limit.js';
import { groupBatch } from './group.js';
import type { Recording } from './recording.js';
import type { Stats } from './stats.js';

/** Channels of one batch that are recorded side by side. */
const AT_ONCE = 256;
/** Outcomes of one call of the script, which holds everybody else up for about 2 ms per thousand. */
const MOST_AT_ONCE = 20_000;
const CALL_DEADLINE_MS = 2_000;

export type IntakeOptions = {
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly reader: LogReader;
  readonly rules: Pick<LiveRules, 'policyFor'>;
  readonly announcer: Announcer;
  readonly stats: Stats;
  readonly freshForMs: number;
  readonly logClockLeadMs: number;
  readonly maxChannels: number;
  readonly recording?: Pick<Recording, 'keep'>;
  readonly log: Log;
  readonly count: Count;
};

export type Intake = {
  /** Reads and judges until the signal; resolves when nothing is in flight. */
  run(signal: AbortSignal): Promise<void>;
  /**
   * One batch: decode, classify, group, record, announce. Resolves when it may be committed; rejects when it must be given again, after
   * a back-off. Every call in it has a deadline, so it ends soon whatever happens. After the signal nothing more is recorded.
   */
  handle(batch: LogBatch, signal?: AbortSignal): Promise<void>;
  /**
   * Set while Redis refuses to judge; the text is its reason. Such time is not a stall. `partitions`: only these count, because one that
   * went to another worker in the middle of its trouble is no longer ours to wait for.
   */
  paused(partitions?: readonly string[]): string | undefined;
};

/**
 * The outcome worker's flow. The order record → announce → commit is what makes a crash anywhere harmless: the batch is read again, the
 * fence knows it, and what was decided is still in the outbox.
 */
export function createIntake(options: IntakeOptions): Intake {
  const { client, keys, reader, rules, announcer, stats, freshForMs, log, count } = options;
  /** Why a partition is held, by partition, from its first failure to the batch that gets through. */
  const troubles = new Map<string, string>();
  const announcing = new Set<Promise<unknown>>();
  const limit = new ChannelLimit(options.maxChannels, (channel) =>
    log.error(
      { channel, maxChannels: options.maxChannels },
      'more channels than maxChannels: new ones are not judged; is an order id sent as channel?',
    ),
  );
  const grouping = {
    admits: (channel: string) => limit.admits(channel),
    logClockLeadMs: options.logClockLeadMs,
  };

  /**
   * One try. A failure ends the batch's handling: the transport gives the whole batch again, after a back-off and after it has looked
   * whether another server answers now. Repeating here could reach a new primary before the transport has gone back on it, and the fence
   * would then cover what that server never saw.
   */
  async function attempt<T>(partition: string, what: string, step: () => Promise<T>): Promise<T> {
    try {
      return await withDeadline(step(), CALL_DEADLINE_MS, what);
    } catch (error) {
      const reason = `${what}: ${error instanceof Error ? error.message : String(error)}`;
      if (!troubles.has(partition))
        log.warn({ partition, err: error }, `${what} failed: the partition is held and tried again`);
      troubles.set(partition, reason);
      throw error;
    }
  }

  /** What a call did; or the letters for outcomes that Redis will never take. */
  async function recordChannel(channel: string, policy: Policy, batch: ChannelBatch): Promise<Recorded | DeadLetter[]> {
    const recorded = await attempt(batch.partition, 'record.lua', async () => {
      try {
        return await record(client, keys, channel, policy, freshForMs, batch);
      } catch (error) {
        // The one thing that repeating cannot cure, and only here: elsewhere it would be a key that all channels share.
        if (isIncurable(error)) return error as Error;
        throw error;
      }
    });
    if (recorded instanceof Error) {
      log.error(
        { channel, err: recorded },
        'a key of this channel has a foreign type: its outcomes go to the dead letters',
      );
      return lettersOf(channel, batch, `${channel}: ${recorded.message}`);
    }
    const { result } = recorded;
    count('fuseline_record_calls_total', { result: result.pushed > 0 ? 'moved' : 'done' });
    for (const disposition of ['counted', 'duplicate', 'late', 'stale', 'overridden'] as const) {
      if (result[disposition] > 0) count('fuseline_outcomes_total', { disposition }, result[disposition]);
    }
    if (result.blockedDropped > 0) count('fuseline_outcomes_total', { disposition: 'blocked' }, result.blockedDropped);
    if (result.crowded > 0) count('fuseline_calls_crowded_total', {}, result.crowded);
    if (result.clipped > 0) count('fuseline_arrivals_clipped_total', {}, result.clipped);
    stats.add(channel, batch.results);
    return recorded;
  }

  async function bury(letters: readonly DeadLetter[]): Promise<void> {
    for (const letter of letters) {
      await attempt(letter.partition, 'the dead letters', () => reader.deadLetter(letter));
      const { reason, partition, position, index } = letter;
      count('fuseline_dead_letters_total', { kind: index === -1 ? 'entry' : 'outcome' });
      log.warn({ reason, partition, position, index }, 'dead letter');
    }
  }

  /** The agenda first: once a channel is on it, a sweep finishes whatever we do not. So commit waits for the agenda alone. */
  async function announce(partition: string, channel: string, recorded: Recorded): Promise<void> {
    const { result, outbox } = recorded;
    if (outbox.length === 0) return;
    const [score] = await attempt(partition, 'the agenda', () => announcer.mark([channel]));
    const telling = announcer.announce(channel, score!, { pushed: result.pushed, outbox });
    announcing.add(telling);
    void telling.finally(() => announcing.delete(telling));
  }

  /** One channel's part of a batch, in bites; resolves to its dead letters. */
  async function judgeChannel(
    channel: string,
    policy: Policy,
    whole: ChannelBatch,
    signal?: AbortSignal,
  ): Promise<DeadLetter[]> {
    const letters: DeadLetter[] = [];
    for (const batch of cutBatch(whole, MOST_AT_ONCE)) {
      // Another server may answer by now, which has to be given what came before first.
      signal?.throwIfAborted();
      const recorded = await recordChannel(channel, policy, batch);
      // Announced as soon as it is recorded: a node of a cluster that is away must not keep the others' blocks untold.
      if (Array.isArray(recorded)) letters.push(...recorded);
      else await announce(batch.partition, channel, recorded);
    }
    return letters;
  }

  async function handle(batch: LogBatch, signal?: AbortSignal): Promise<void> {
    // Rules may change meanwhile: what was classified by one version is not judged by the next.
    const policies = new Map<string, Policy>();
    const policyFor = (channel: string) => {
      const policy = policies.get(channel) ?? rules.policyFor(channel);
      policies.set(channel, policy);
      return policy;
    };
    const { channels, letters, unjudged } = groupBatch(batch, { ...grouping, policyFor });
    const all = [...channels];
    const failures: unknown[] = [];
    for (let from = 0; from < all.length; from += AT_ONCE) {
      const part = all
        .slice(from, from + AT_ONCE)
        .map(([channel, one]) => judgeChannel(channel, policyFor(channel), one, signal));
      // Every call is waited for, whatever the others did: nothing of this batch may still run when it is given again.
      for (const done of await Promise.allSettled(part)) {
        if (done.status === 'fulfilled') letters.push(...done.value);
        else failures.push(done.reason);
      }
    }
    if (failures.length > 0) throw failures[0];
    // Last, so that a batch which is given again does not bury its letters again.
    await bury(letters);
    troubles.delete(batch.partition);
    options.recording?.keep(batch);
    count('fuseline_outcomes_total', { disposition: 'ignored' }, unjudged.ignored);
    count('fuseline_outcomes_total', { disposition: 'disabled' }, unjudged.disabled);
    count('fuseline_channels_over_limit_total', {}, unjudged.overLimit);
  }

  return {
    handle,
    paused: (partitions) =>
      [...troubles].find(([partition]) => partitions === undefined || partitions.includes(partition))?.[1],
    async run(signal) {
      await reader.run(handle, signal);
      await Promise.all(announcing);
    },
  };
}

/** A channel's outcomes that Redis will never take, an entry each, with what a person needs to give them again. */
function lettersOf(channel: string, batch: ChannelBatch, reason: string): DeadLetter[] {
  const { partition, results } = batch;
  let at = 0;
  return batch.entries.map(([position, arrivalMs, outcomes]) => {
    const raw = JSON.stringify({ channel, arrivalMs, results: results.slice(at, at + outcomes) });
    at += outcomes;
    return { reason, partition, position, index: -1, raw };
  });
}
