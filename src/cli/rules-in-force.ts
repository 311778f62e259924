import type { Policy } from '../domain/policy.js';
import { parseRulesValue, type Rules } from '../domain/rules.js';
import type { RulesDocument } from '../domain/rules-schema.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { getRules } from '../rules/store.js';
import { judgeStored } from '../rules/stored.js';
import { CliError } from './failure.js';
import { answered } from './redis.js';

/** What the workers judge by, as far as Redis tells: they may still live by an earlier document if this one is refused. */
export type RulesInForce = {
  readonly version: number;
  readonly empty: boolean;
  /** Some policy is judged by the load. */
  readonly hasDynamic: boolean;
  /** Why the document under `fuseline:config` is refused. The policies are then the defaults. */
  readonly refused?: string;
  /** Empty if it is refused. */
  readonly document: RulesDocument;
  policyFor(channel: string): Policy;
  minVisible(group: string): number;
  /** Named without a glob, in the order of the document. */
  namedChannels(): readonly string[];
  /** Every group that the rules name. */
  readonly groups: readonly string[];
};

/** Reads and judges the rules once. @throws {CliError} Redis does not answer */
export async function rulesInForce(client: RedisClient, keys: Keys): Promise<RulesInForce> {
  const stored = await answered(getRules({ client, keys }), 'the rules');
  if (stored === undefined) return asInForce(noRules());
  const judged = judgeStored(stored);
  if (judged.ok) return asInForce(judged.rules);
  const [first] = judged.problems;
  return { ...asInForce(noRules()), refused: first === undefined ? 'unreadable' : `${first.path}: ${first.message}` };
}

function asInForce(rules: Rules): RulesInForce {
  const { version, empty, document, hasDynamic } = rules;
  const used = Object.values(document.channels ?? {}).flatMap(({ group }) => (group === undefined ? [] : [group]));
  return {
    version,
    empty,
    hasDynamic,
    document,
    policyFor: (channel) => rules.policyFor(channel),
    minVisible: (group) => rules.minVisible(group),
    namedChannels: () => rules.namedChannels,
    groups: [...new Set([...used, ...Object.keys(document.groups ?? {})])],
  };
}

function noRules(): Rules {
  const parsed = parseRulesValue(undefined);
  if (!parsed.ok) throw new CliError('the empty document is refused');
  return parsed.rules;
}
