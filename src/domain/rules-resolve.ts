import { parseDuration } from './duration.js';
import { glob, isPattern } from './glob.js';
import { DEFAULT_POLICY, type Policy } from './policy.js';
import { policyOfRule } from './policy-of-rule.js';
import type { PolicyRule } from './policy-schema.js';
import { presetOf } from './presets.js';
import type { Receiver } from './receiver.js';
import type { ChannelRule, ReceiverRule, RulesDocument } from './rules-schema.js';

/** Channels remembered per document, so that a flood of invented names cannot fill the memory. */
const REMEMBERED_MOST = 20_000;
const RECEIVER_TIMEOUT_MS = 10_000;

/**
 * The effective policy of any channel under one document. Layers, from the bottom: built-in defaults, the document's `mode`, its
 * `defaults`, the named policy, the channel's own keys; each key is taken whole from the highest layer that has it. The exact name
 * beats every pattern; of patterns the first in the document wins; a channel that the rules do not name gets the defaults.
 * Channels under the same rule share one object.
 */
export function policyResolver(document: RulesDocument): (channel: string) => Policy {
  const find = ruleFinder(document);
  const resolved = new Map<ChannelRule | undefined, Policy>();
  const remembered = new Map<string, Policy>();

  return (channel) => {
    const known = remembered.get(channel);
    if (known !== undefined) return known;
    const rule = find(channel)?.rule;
    const policy = resolved.get(rule) ?? resolve(document, rule ?? {});
    resolved.set(rule, policy);
    if (remembered.size >= REMEMBERED_MOST) remembered.clear();
    remembered.set(channel, policy);
    return policy;
  };
}

/** The entry under `channels` that a channel falls under. */
export type FoundRule = { /** As written. */ readonly name: string; readonly rule: ChannelRule };

/** Finds a channel's entry: its exact name, else the first pattern in the document; `undefined`: the rules do not name it. */
export function ruleFinder({ channels = {} }: RulesDocument): (channel: string) => FoundRule | undefined {
  const exact = new Map<string, FoundRule>();
  const patterns: [matches: (name: string) => boolean, found: FoundRule][] = [];
  for (const [name, rule] of Object.entries(channels)) {
    const canonical = name.normalize('NFC');
    if (isPattern(canonical)) patterns.push([glob(canonical), { name, rule }]);
    else exact.set(canonical, { name, rule });
  }
  return (channel) => {
    const name = channel.normalize('NFC');
    return exact.get(name) ?? patterns.find(([matches]) => matches(name))?.[1];
  };
}

/** Every place of a document in which thresholds and times stand. */
export function policyRules(document: RulesDocument): [path: string[], rule: PolicyRule][] {
  const within = (section: 'policies' | 'channels') =>
    Object.entries(document[section] ?? {}).map(([name, rule]): [string[], PolicyRule] => [[section, name], rule]);
  return [[['defaults'], document.defaults ?? {}], ...within('policies'), ...within('channels')];
}

/** The receivers as the alert side wants them; references stay references. */
export function resolveReceivers(document: RulesDocument): Receiver[] {
  return Object.entries(document.receivers ?? {}).map(([name, rule]) => resolveReceiver(name, rule));
}

function resolveReceiver(name: string, rule: ReceiverRule): Receiver {
  const { timeout, locale = 'en', timeZone = 'UTC', mentions = [], ...rest } = rule;
  return { ...rest, name, locale, timeZone, mentions, timeoutMs: parseDuration(timeout) ?? RECEIVER_TIMEOUT_MS };
}

/** The policy that a rule names, and whether it is the document's own, which takes the place of a preset of that name. */
export function namedPolicy(
  { policies = {} }: RulesDocument,
  name: string,
): { own: boolean; rule: PolicyRule } | undefined {
  if (Object.hasOwn(policies, name)) return { own: true, rule: policies[name]! };
  const preset = presetOf(name);
  return preset && { own: false, rule: preset.rule };
}

/** The keys in force for a channel's rule, as written: its own, then those of its policy, then the defaults. */
export function mergeRule(document: RulesDocument, rule: ChannelRule): ChannelRule {
  const named = rule.policy === undefined ? undefined : namedPolicy(document, rule.policy)?.rule;
  return { ...stripped(document.defaults), ...stripped(named), ...stripped(rule) };
}

/** A channel's policy, given its entry; `{}` for one that the rules do not name. */
export function resolve(document: RulesDocument, rule: ChannelRule): Policy {
  const merged = mergeRule(document, rule);
  const policy = policyOfRule(merged, merged.mode ?? document.mode ?? DEFAULT_POLICY.mode);
  return merged.group === undefined ? policy : { ...policy, group: merged.group };
}

/** A key given as `undefined` must not hide the layer below. */
function stripped<T extends object>(rule: T | undefined): Partial<T> {
  return Object.fromEntries(Object.entries(rule ?? {}).filter(([, value]) => value !== undefined)) as Partial<T>;
}
