import { handInForce, readLoad, type StoredLoad, stepLoad } from '../channel/load.js';
import { readTime } from '../channel/snapshot.js';
import { describePolicy } from '../domain/describe.js';
import { type Factors, isStepDue, nextFactors, scaledPolicy } from '../domain/dynamic.js';
import { lastMinute, workersLoad } from '../intake/last-minute.js';
import type { Log } from '../observe/log.js';
import type { RedisClient } from '../redis/client.js';
import { sleep, withDeadline } from '../redis/deadline.js';
import type { Keys } from '../redis/keys.js';
import type { DynamicRules } from '../rules/port.js';

const LOOK_EVERY_MS = 5_000;
const DEADLINE_MS = 2_000;
/** Different policies told in one line, and channels named for each. */
const POLICIES_TOLD = 20;
const CHANNELS_NAMED = 5;

export type LoadWatchOptions = {
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly rules: Pick<DynamicRules, 'policyFor' | 'namedChannels' | 'hasDynamic'>;
  /** The outcome workers that live. */
  readonly workers: () => Promise<readonly string[]>;
  readonly log: Log;
};

export type LoadWatch = {
  /**
   * Takes a step of the factors if a minute has passed since the last one, whoever took that. Any number of watchers may look. While
   * nobody says what the load is there is no step. Asks Redis nothing unless a policy is dynamic.
   *
   * @throws what Redis answers; looking again is the cure
   */
  look(): Promise<'off' | 'early' | 'unknown' | 'taken' | 'not taken'>;
  /** Looks every five seconds until the signal. */
  run(signal: AbortSignal): Promise<void>;
};

export function createLoadWatch(options: LoadWatchOptions): LoadWatch {
  const { client, keys, rules, workers, log } = options;
  let failing = false;

  async function look(): ReturnType<LoadWatch['look']> {
    if (!rules.hasDynamic()) return 'off';
    const [stored, { redisMs }] = await Promise.all([readLoad(client, keys), readTime(client)]);
    const nowMs = Math.floor(redisMs);
    if (!isStepDue(stored.at, nowMs)) return 'early';
    const hand = handInForce(stored, nowMs);
    const load = hand?.load ?? (await workersLoad(client, keys, await workers()));
    if (load === undefined) return 'unknown';
    const source = hand === undefined ? 'workers' : 'hand';
    const factors = nextFactors(stored.factors, load);
    if (!(await stepLoad(client, keys, stored, { factors, load, source }))) return 'not taken';
    await tell(stored, factors, { load, source, ...(hand && { actor: hand.actor }) });
    return 'taken';
  }

  /** Once for each change, by whoever made it: by which numbers channels are judged now. */
  async function tell({ factors: before }: StoredLoad, factors: Factors, facts: object): Promise<void> {
    if (factors.window === before.window && factors.rate === before.rate) return;
    // The names of channels that only a pattern covers; the step is taken, whether they can be read or not.
    const busy = await lastMinute(client, keys, await workers()).catch(() => new Map<string, unknown>());
    const policies = effective(rules, [...rules.namedChannels(), ...busy.keys()], factors);
    const line = { ...facts, windowFactor: factors.window, rateFactor: factors.rate, policies };
    log.info(line, 'the load changed what channels with dynamic policies are judged by');
  }

  return {
    look,
    async run(signal) {
      while (!signal.aborted) {
        try {
          await withDeadline(look(), DEADLINE_MS, 'the load');
          failing = false;
        } catch (error) {
          if (!failing) log.warn({ err: error }, 'the load could not be looked at: the factors stay; trying again');
          failing = true;
        }
        await sleep(LOOK_EVERY_MS, signal);
      }
    },
  };
}

type Effective = { window: unknown; successRate: number; channels: string[]; more: number };

/** The windows and success rates of the dynamic ones among these channels, each with some of those that are judged by it. */
function effective(
  rules: Pick<DynamicRules, 'policyFor'>,
  channels: readonly string[],
  factors: Factors,
): readonly Effective[] {
  const found = new Map<string, Effective>();
  for (const channel of new Set(channels)) {
    const policy = rules.policyFor(channel);
    if (!policy.isDynamic || policy.mode === 'off') continue;
    const { window, successRate } = describePolicy(scaledPolicy(policy, factors));
    const name = JSON.stringify([window, successRate]);
    const one = found.get(name) ?? { window, successRate, channels: [], more: 0 };
    if (one.channels.length < CHANNELS_NAMED) one.channels.push(channel);
    else one.more += 1;
    found.set(name, one);
  }
  return [...found.values()].slice(0, POLICIES_TOLD);
}
