import { type ChannelBatch, NOTHING_RECORDED, type RecordResult } from '../domain/batch.js';
import type { Policy } from '../domain/policy.js';
import type { Transition } from '../domain/transition.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { loadScript, runScript, type ScriptReply } from '../redis/script.js';
import { readOutbox, splitReply } from './outbox.js';
import { policyArgs } from './policy-args.js';

const script = loadScript('record');

/** What one call did, and every transition that is not yet announced: the newest `result.pushed` of them are this call's own. */
export type Recorded = { readonly result: RecordResult; readonly outbox: readonly Transition[] };

/**
 * Judges one channel's outcomes of one batch, atomically. Repeating a call is safe: positions at or below the fence change nothing,
 * and what it decided the first time is still in the outbox. Must not be called for a channel in mode `off`.
 *
 * @throws what Redis answers; `WRONGTYPE` (see `isIncurable`) is the only error that repeating cannot cure
 */
export async function record(
  client: RedisClient,
  keys: Keys,
  channel: string,
  policy: Policy,
  freshForMs: number,
  batch: ChannelBatch,
): Promise<Recorded> {
  const args = recordArgs(policy, freshForMs, batch);
  const reply = await runScript(client, script, keys.channel(channel), args);
  if (reply === 0) return { result: { ...NOTHING_RECORDED, counted: batch.results.length }, outbox: [] };
  return readReply(channel, reply);
}

const NUMBERS = [
  ...(['pushed', 'blocked', 'recorded', 'succeeded', 'counted', 'duplicate'] as const),
  ...(['late', 'stale', 'blockedDropped', 'overridden', 'clipped', 'crowded'] as const),
];

/** A reply of `record.lua` beyond the fast path: its numbers in their order, then the outbox. */
export function readReply(channel: string, reply: ScriptReply): Recorded {
  const { numbers, texts } = splitReply(reply, NUMBERS.length);
  const named = Object.fromEntries(NUMBERS.map((name, i) => [name, numbers[i] ?? 0])) as Record<
    (typeof NUMBERS)[number],
    number
  >;
  return { result: { ...named, blocked: named.blocked === 1 }, outbox: readOutbox(channel, texts) };
}

/** What `record.lua` is called with; exported so that the tests which hold it against the model call it no other way. */
export function recordArgs(policy: Policy, freshForMs: number, batch: ChannelBatch): (string | number)[] {
  return [
    ...policyArgs(policy, freshForMs),
    batch.results,
    batch.partition,
    JSON.stringify(runsOf(batch)),
    batch.times.length === 0 ? '' : JSON.stringify(batch.times),
    batch.evidence.length === 0 ? '' : JSON.stringify(batch.evidence),
  ];
}

type Run = [lastPosition: string, arrivalMs: number, outcomes: number, reachMs: number, positions?: string];

/**
 * The entries, each with the most by which one of its calls began before the entry's arrival, in ms. Where even that call is fresh and
 * not late the script need not look at the times of the others.
 *
 * Entries of one outcome each that arrived in the same millisecond go as one, with all their positions: the script reads these only where
 * its fence may lie among them. (Half of what a record of one outcome costs Redis.)
 */
function runsOf({ entries, times }: ChannelBatch): Run[] {
  const runs: Run[] = [];
  let [at, positions, run]: [number, string[], Run | undefined] = [0, [], undefined];
  const end = () => {
    if (run && positions.length > 1) run[4] = positions.join(' ');
  };
  for (const [position, arrivalMs, outcomes] of entries) {
    let reach = 0;
    for (const last = at + outcomes; at < last; at += 1) {
      const ms = (times[2 * at] ?? 0) + (times[2 * at + 1] ?? 0);
      if (ms > reach) reach = ms;
    }
    if (run && outcomes === 1 && run[2] === positions.length && run[1] === arrivalMs) {
      run[0] = position;
      run[2] += 1;
      if (reach > run[3]) run[3] = reach;
    } else {
      end();
      run = [position, arrivalMs, outcomes, reach];
      runs.push(run);
      positions = [];
    }
    if (outcomes === 1) positions.push(position);
  }
  end();
  return runs;
}
