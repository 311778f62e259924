import { readLoad } from '../channel/load.js';
import { AS_WRITTEN, type Factors, isAsWritten, scaledPolicy } from '../domain/dynamic.js';
import type { Policy } from '../domain/policy.js';
import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';
import type { RedisClient } from '../redis/client.js';
import { sleep, withDeadline } from '../redis/deadline.js';
import type { Keys } from '../redis/keys.js';
import type { DynamicRules } from '../rules/port.js';

/** How long workers may judge by different factors after a step. */
const POLL_MS = 2_000;

export type LoadedPoliciesOptions = {
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly rules: Pick<DynamicRules, 'policyFor' | 'hasDynamic'>;
  readonly log: Log;
  readonly set: Metrics['set'];
};

export type LoadedPolicies = {
  /** What a channel is judged by now: its policy under the rules, scaled by the fleet's factors if it is dynamic. Asks nobody. */
  policyFor(channel: string): Policy;
  /** One look at the factors. Never rejects: the last ones stay. Asks Redis nothing unless a policy is dynamic. */
  refresh(): Promise<void>;
  /** Looks every two seconds until the signal. */
  run(signal: AbortSignal): Promise<void>;
};

/** The policies by which workers judge. All of them go by the factors in `fuseline:load`, none by its own load. */
export function createLoadedPolicies({ client, keys, rules, log, set }: LoadedPoliciesOptions): LoadedPolicies {
  let factors = AS_WRITTEN;
  /** Policies made for these factors. Channels under one rule share one object, so that there are few. */
  let scaled = new WeakMap<Policy, Policy>();
  let away = false;

  function take(next: Factors, load: number): void {
    set('fuseline_load', load);
    set('fuseline_window_factor', next.window);
    set('fuseline_rate_factor', next.rate);
    if (next.window === factors.window && next.rate === factors.rate) return;
    factors = next;
    scaled = new WeakMap();
    log.debug({ windowFactor: next.window, rateFactor: next.rate }, 'judging by other factors of the load');
  }

  async function refresh(): Promise<void> {
    if (!rules.hasDynamic()) return take(AS_WRITTEN, -1);
    try {
      const stored = await withDeadline(readLoad(client, keys), POLL_MS, 'the factors of the load');
      take(stored.factors, stored.last?.load ?? -1);
      away = false;
    } catch (error) {
      if (!away) log.warn({ err: error }, 'the factors of the load cannot be read: the last ones stay');
      away = true;
    }
  }

  return {
    refresh,
    policyFor(channel) {
      const policy = rules.policyFor(channel);
      if (!policy.isDynamic || isAsWritten(factors)) return policy;
      const known = scaled.get(policy);
      if (known !== undefined) return known;
      const made = scaledPolicy(policy, factors);
      scaled.set(policy, made);
      return made;
    },
    async run(signal) {
      while (!signal.aborted) {
        await refresh();
        await sleep(POLL_MS, signal);
      }
    },
  };
}
