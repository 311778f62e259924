import { handInForce, type LoadByHand, readLoad, type StoredLoad } from '../channel/load.js';
import { type Factors, scaledPolicy } from '../domain/dynamic.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { answered } from './redis.js';
import { type RulesInForce, rulesInForce } from './rules-in-force.js';

/** By how much judging is more patient now, and the load that led there. */
export type LoadInForce = {
  readonly factors: Factors;
  /** Of the last step; absent: none was taken. */
  readonly last?: StoredLoad['last'];
  /** What a person set and still holds. */
  readonly hand?: LoadByHand;
};

/** The rules, with dynamic policies as they are now. */
export type RulesUnderLoad = RulesInForce & {
  readonly factors: Factors;
  /** @param nowMs Redis ms. `undefined`: no policy is dynamic, nor has anybody set a load */
  loadAt(nowMs: number): LoadInForce | undefined;
};

/** Reads rules and load once. @throws {CliError} Redis does not answer */
export async function rulesUnderLoad(client: RedisClient, keys: Keys): Promise<RulesUnderLoad> {
  const [rules, stored] = await Promise.all([
    rulesInForce(client, keys),
    answered(readLoad(client, keys), 'the factors of the load'),
  ]);
  return {
    ...rules,
    factors: stored.factors,
    policyFor: (channel) => scaledPolicy(rules.policyFor(channel), stored.factors),
    loadAt(nowMs) {
      const hand = handInForce(stored, nowMs);
      if (!rules.hasDynamic && hand === undefined) return undefined;
      const { factors, last } = stored;
      return { factors, ...(last && { last }), ...(hand && { hand }) };
    },
  };
}
