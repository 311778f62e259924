import type { Policy, Window } from '../domain/policy.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { roughly } from './output.js';

/** Calls in a channel's window by how they ended; `score` of a sequential test. */
export type WindowCalls = {
  readonly good: number;
  readonly bad: number;
  readonly slow: number;
  readonly score?: number;
};

/** A channel's window as `status` tells it. */
export type WindowStatus = {
  readonly kind: Window['kind'];
  /** Slots of a count window; of another one the calls in it. */
  readonly size: number;
  readonly recorded: number;
  readonly succeeded: number;
  /** Where the rules look at slow calls: these either count as failures, or are among `succeeded`. */
  readonly slow?: number;
  readonly spanMs?: number;
  /** Of a sequential test, and at which score it blocks. */
  readonly score?: number;
  readonly limit?: number;
};

/** Counts what a window of any kind holds; what cannot be read holds nothing. */
export async function readWindow(main: RedisClient, keys: Keys, channel: string): Promise<WindowCalls> {
  const [health, , , , , , slots] = keys.channel(channel);
  const [list, hash] = await Promise.all([
    main.lrange(health, 0, -1).catch((): string[] => []),
    main.hgetall(slots).catch((): Record<string, string> => ({})),
  ]);
  const number = (name: string) => Number(hash[name] ?? 0) || 0;
  const [bad, slow] = [number('@failures'), number('@slow')];
  if (hash['@log'] !== undefined) return { good: number('@successes'), bad, slow };
  if (hash['@test'] !== undefined)
    return { good: Math.max(0, number('@calls') - bad - slow), bad, slow, score: number('@score') };
  return perSlot(list, Object.values(hash));
}

/** A channel has a count window or a time window, never both. */
function perSlot(list: readonly string[], slots: readonly string[]): WindowCalls {
  const [bad, slow] = ['0', '3'].map((result) => list.filter((slot) => slot === result).length) as [number, number];
  const sum = { good: list.length - bad - slow, bad, slow };
  for (const value of slots) {
    const [, good = 0, failed = 0, late = 0] = (/^(\d+)\|(\d+)\|?(\d*)$/.exec(value) ?? []).map(Number);
    sum.good += good;
    sum.bad += failed;
    sum.slow += late;
  }
  return sum;
}

/** The same as the policy counts it: slow calls are failures, or have a threshold of their own. */
export function windowOf({ window, slow: rule }: Policy, { good, bad, slow, score = 0 }: WindowCalls): WindowStatus {
  const recorded = good + bad + slow;
  const succeeded = rule !== undefined && rule.rate === undefined ? good : good + slow;
  return {
    kind: window.kind,
    ...{ size: window.kind === 'count' ? window.size : recorded, recorded, succeeded },
    ...(rule === undefined ? {} : { slow }),
    ...('spanMs' in window ? { spanMs: window.spanMs } : {}),
    ...(window.kind === 'sequential' ? { score, limit: window.limit } : {}),
  };
}

/** The window for people; empty where it holds nothing. */
export function windowText({
  kind,
  size,
  recorded,
  succeeded,
  slow = 0,
  spanMs = 0,
  score,
  limit,
}: WindowStatus): string {
  if (recorded === 0) return '';
  const of = {
    count: `(${size} slots)`,
    time: `in ${roughly(spanMs)}`,
    log: `in ${roughly(spanMs)}`,
    sequential: `since it began to fail, score ${score} of ${limit}`,
  };
  return `${succeeded} of ${recorded} ok${slow > 0 ? `, ${slow} slow,` : ''} ${of[kind]}`;
}
