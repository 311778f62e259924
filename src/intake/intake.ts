import type { Announcer } from '../announce.js';
import { type Recorded, record } from '../channel/record.js';
import { type ChannelBatch, cutBatch } from '../domain/batch.js';
import type { Log } from '../observe/log.js';
import type { Count } from '../observe/metrics.js';
import type { RedisClient } from '../redis/client.js';
import { backoffMs, isIncurable, sleep, withDeadline } from '../redis/deadline.js';
import type { Keys } from '../redis/keys.js';
import type { LiveRules } from '../rules/port.js';
import type { DeadLetter, LogBatch, LogReader } from '../transport/port.js';
import { ChannelLimit } from './channel-limit.js';
import { groupBatch } from './group.js';
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
  readonly rules: LiveRules;
  readonly announcer: Announcer;
  readonly stats: Stats;
  readonly freshForMs: number;
  readonly logClockLeadMs: number;
  readonly maxChannels: number;
  readonly log: Log;
  readonly count: Count;
};

export type Intake = {
  /** Reads and judges until the signal; resolves when nothing is in flight. */
  run(signal: AbortSignal): Promise<void>;
  /** One batch: decode, classify, group, record, announce. Resolves when it may be committed; rejects only on the signal. */
  handle(batch: LogBatch, signal: AbortSignal): Promise<void>;
  /** Set while Redis refuses to judge; the text is its reason. Such time is not a stall. */
  paused(): string | undefined;
};

/**
 * The outcome worker's flow. The order record → announce → commit is what makes a crash anywhere harmless: the batch is read again, the
 * fence knows it, and what was decided is still in the outbox.
 */
export function createIntake(options: IntakeOptions): Intake {
  const { client, keys, reader, rules, announcer, stats, freshForMs, log, count } = options;
  /** What is being repeated right now, a step each: others of the same partition may go through meanwhile. */
  const troubles = new Set<{ readonly partition: string; reason: string }>();
  const announcing = new Set<Promise<unknown>>();
  const limit = new ChannelLimit(options.maxChannels, (channel) =>
    log.error(
      { channel, maxChannels: options.maxChannels },
      'more channels than maxChannels: new ones are not judged; is an order id sent as channel?',
    ),
  );
  const grouping = {
    policyFor: (channel: string) => rules.policyFor(channel),
    admits: (channel: string) => limit.admits(channel),
    logClockLeadMs: options.logClockLeadMs,
  };

  /** Repeats a step until it is done: only the signal gets through. */
  async function insist<T>(partition: string, what: string, signal: AbortSignal, step: () => Promise<T>): Promise<T> {
    const trouble = { partition, reason: '' };
    try {
      for (let attempt = 0; ; attempt += 1) {
        try {
          return await withDeadline(step(), CALL_DEADLINE_MS, what);
        } catch (error) {
          trouble.reason = `${what}: ${error instanceof Error ? error.message : String(error)}`;
          if (![...troubles].some((other) => other.partition === partition))
            log.warn({ partition, err: error }, `${what} failed: the partition is held and tried again`);
          troubles.add(trouble);
          await sleep(backoffMs(attempt), signal);
          if (signal.aborted) throw signal.reason;
        }
      }
    } finally {
      troubles.delete(trouble);
    }
  }

  async function recordChannel(
    channel: string,
    batch: ChannelBatch,
    signal: AbortSignal,
  ): Promise<Recorded | undefined> {
    const policy = rules.policyFor(channel);
    const recorded = await insist(batch.partition, 'record.lua', signal, async () => {
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
      await bury(lettersOf(channel, batch, `${channel}: ${recorded.message}`), signal);
      return undefined;
    }
    const { result } = recorded;
    count('fuseline_record_calls_total', { result: result.pushed > 0 ? 'moved' : 'done' });
    for (const disposition of ['counted', 'duplicate', 'late', 'stale', 'overridden'] as const) {
      if (result[disposition] > 0) count('fuseline_outcomes_total', { disposition }, result[disposition]);
    }
    if (result.blockedDropped > 0) count('fuseline_outcomes_total', { disposition: 'blocked' }, result.blockedDropped);
    if (result.clipped > 0) count('fuseline_arrivals_clipped_total', {}, result.clipped);
    stats.add(channel, batch.results);
    return recorded;
  }

  async function bury(letters: readonly DeadLetter[], signal: AbortSignal): Promise<void> {
    for (const letter of letters) {
      await insist(letter.partition, 'the dead letters', signal, () => reader.deadLetter(letter));
      const { reason, partition, position, index } = letter;
      count('fuseline_dead_letters_total', { kind: index === -1 ? 'entry' : 'outcome' });
      log.warn({ reason, partition, position, index }, 'dead letter');
    }
  }

  /** The agenda first: once a channel is on it, a sweep finishes whatever we do not. So commit waits for the agenda alone. */
  async function announce(partition: string, channel: string, recorded: Recorded, signal: AbortSignal): Promise<void> {
    const { result, outbox } = recorded;
    if (outbox.length === 0) return;
    const [score] = await insist(partition, 'the agenda', signal, () => announcer.mark([channel]));
    const telling = announcer.announce(channel, score!, { pushed: result.pushed, outbox });
    announcing.add(telling);
    void telling.finally(() => announcing.delete(telling));
  }

  async function handle(batch: LogBatch, signal: AbortSignal): Promise<void> {
    const { channels, letters, unjudged } = groupBatch(batch, grouping);
    await bury(letters, signal);
    count('fuseline_outcomes_total', { disposition: 'ignored' }, unjudged.ignored);
    count('fuseline_outcomes_total', { disposition: 'disabled' }, unjudged.disabled);
    count('fuseline_channels_over_limit_total', {}, unjudged.overLimit);
    const all = [...channels];
    for (let from = 0; from < all.length; from += AT_ONCE) {
      // Each is announced as soon as it is recorded: a node of a cluster that is away must not keep the others' blocks untold.
      await Promise.all(
        all.slice(from, from + AT_ONCE).map(async ([channel, one]) => {
          for (const part of cutBatch(one, MOST_AT_ONCE)) {
            const recorded = await recordChannel(channel, part, signal);
            if (recorded) await announce(batch.partition, channel, recorded, signal);
          }
        }),
      );
    }
  }

  return {
    handle,
    paused: () => troubles.values().next().value?.reason,
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
