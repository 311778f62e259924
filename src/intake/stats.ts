import type { RedisClient } from '../redis/client.js';
import { sleep, withDeadline } from '../redis/deadline.js';
import type { Keys } from '../redis/keys.js';
import { Utilisation } from './utilisation.js';

const EVERY_MS = 2_000;
const LIVES_MS = 15_000;
const BUSIEST = 1_000;
/** Counts cover the last minute, in steps of a write. */
const STEPS = 30;

type Counts = [successes: number, failures: number];

/** Counts of one channel over the last minute, as one worker saw them: what `status` and lists add up. */
export type ChannelStats = { readonly successes: number; readonly failures: number };

/**
 * One worker's counts per channel over the last minute: kept in memory, written once every two seconds whatever the traffic, so that
 * watching costs Redis nothing per outcome.
 */
export class Stats {
  readonly #steps: Map<string, Counts>[] = [new Map()];

  add(channel: string, results: string): void {
    const step = this.#steps[0]!;
    const counts = step.get(channel) ?? [0, 0];
    const failures = times('0', results) + times('4', results);
    counts[0] += results.length - failures;
    counts[1] += failures;
    step.set(channel, counts);
  }

  /** The busiest channels of the last minute; begins a new step. */
  turn(): Map<string, ChannelStats> {
    const total = new Map<string, { successes: number; failures: number }>();
    for (const step of this.#steps) {
      for (const [channel, [successes, failures]] of step) {
        const sum = total.get(channel) ?? { successes: 0, failures: 0 };
        total.set(channel, { successes: sum.successes + successes, failures: sum.failures + failures });
      }
    }
    this.#steps.unshift(new Map());
    this.#steps.length = Math.min(this.#steps.length, STEPS);
    if (total.size <= BUSIEST) return total;
    const calls = ({ successes, failures }: ChannelStats) => successes + failures;
    return new Map([...total].sort(([, a], [, b]) => calls(b) - calls(a)).slice(0, BUSIEST));
  }
}

/** Beside the channels: how busy the worker's event loop is. No channel has braces in its name. */
export const LOAD_FIELD = '{load}';

/** Writes the counts until the signal, and the load of this process where `tellsLoad`. An outage costs the counts of that time, nothing else. */
export async function writeStats(
  client: RedisClient,
  keys: Keys,
  worker: string,
  stats: Stats,
  signal: AbortSignal,
  tellsLoad: () => boolean = () => false,
): Promise<void> {
  const key = keys.stats(worker);
  const utilisation = new Utilisation(STEPS);
  while (!signal.aborted) {
    await sleep(EVERY_MS, signal);
    const fields = [...stats.turn()].flatMap(([channel, counts]) => [channel, JSON.stringify(counts)]);
    const load = utilisation.look();
    if (tellsLoad()) fields.push(LOAD_FIELD, load.toFixed(4));
    const write = client.multi().del(key);
    if (fields.length > 0) write.hset(key, ...fields).pexpire(key, LIVES_MS);
    await withDeadline(write.exec(), EVERY_MS, 'the write of stats').catch(() => {});
  }
}

function times(result: string, results: string): number {
  let count = 0;
  for (let at = results.indexOf(result); at !== -1; at = results.indexOf(result, at + 1)) count += 1;
  return count;
}
