import { parseDuration } from './duration.js';
import { glob, isPattern } from './glob.js';
import { type BlockLength, DEFAULT_POLICY, type Policy, type Window } from './policy.js';
import { LOG_MOST, type PolicyRule } from './policy-schema.js';
import { presetOf } from './presets.js';
import type { Receiver } from './receiver.js';
import type { Problem } from './rules-problems.js';
import { problemAt } from './rules-problems.js';
import type { ChannelRule, ReceiverRule, RulesDocument } from './rules-schema.js';
import { parseFalseBlocks, sequentialTest } from './window/sequential-test.js';

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

/** What a document asks for that this version accepts but does not judge by, each with what happens instead. */
export function unjudged(document: RulesDocument): Problem[] {
  return policyRules(document).flatMap(([path, rule]) => [
    ...(rule.halfOpen === undefined
      ? []
      : [
          problemAt(
            [...path, 'halfOpen'],
            'half-open is not judged by this version; at the end of a block these channels are closed at once',
          ),
        ]),
  ]);
}

/** The receivers as the alert side wants them; references stay references. */
export function resolveReceivers(document: RulesDocument): Receiver[] {
  return Object.entries(document.receivers ?? {}).map(([name, rule]) => resolveReceiver(name, rule));
}

function resolveReceiver(name: string, rule: ReceiverRule): Receiver {
  const { timeout, locale = 'en', timeZone = 'UTC', mentions = [], ...rest } = rule;
  return { ...rest, name, locale, timeZone, mentions, timeoutMs: ms(timeout, RECEIVER_TIMEOUT_MS) };
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
  return {
    mode: merged.mode ?? document.mode ?? DEFAULT_POLICY.mode,
    window: readWindow(merged.window),
    successRate: merged.successRate === undefined ? DEFAULT_POLICY.successRate : Math.round(merged.successRate * 100),
    block: blockLength(merged.block),
    holdMs: ms(merged.hold, DEFAULT_POLICY.holdMs),
    ignore: [...(merged.ignore ?? DEFAULT_POLICY.ignore), ...(merged.codes?.ignored ?? [])],
    ...beyondTheRate(merged),
    ...(merged.group === undefined ? {} : { group: merged.group }),
  };
}

/** What most policies do not have: absent, so that a plain policy stays plain. */
function beyondTheRate(rule: PolicyRule): Partial<Policy> {
  const { codes, slowCall, slowRate, minFailures, maxFailures, maxConsecutiveFailures, minSources, rateLimited } = rule;
  const { success = [], failure = [] } = codes ?? {};
  return stripped({
    codes: success.length + failure.length > 0 ? { success, failure } : undefined,
    slow:
      slowCall === undefined
        ? undefined
        : stripped({ overMs: ms(slowCall, 0), rate: slowRate === undefined ? undefined : Math.round(slowRate * 100) }),
    minFailures,
    maxFailures,
    maxConsecutiveFailures,
    minSources: minSources === 1 ? undefined : minSources,
    rateLimit:
      rateLimited === undefined || rateLimited === 'count'
        ? undefined
        : { minMs: ms(rateLimited.min, 1_000), maxMs: ms(rateLimited.max, 300_000) },
  } as Partial<Policy>);
}

/** A window of time judges from five calls on, and has ten slots, unless it says otherwise. */
function readWindow(window: PolicyRule['window']): Window {
  if (window === undefined) return DEFAULT_POLICY.window;
  if (typeof window === 'number') return { kind: 'count', size: window };
  if (window.kind === 'count') return { kind: 'count', size: window.size };
  if (window.kind === 'sequential') {
    const falseBlocks = parseFalseBlocks(window.falseBlocks ?? '1 per million') ?? 1e-6;
    const [healthy, failing] = [Math.round(window.healthy * 100), Math.round(window.failing * 100)];
    const test = sequentialTest(healthy / 10_000, failing / 10_000, falseBlocks);
    return { kind: 'sequential', healthy, failing, falseBlocks, ...test };
  }
  const { span, minCalls = 5 } = window;
  if (window.kind === 'log')
    return { kind: 'log', spanMs: ms(span, 0), minCalls, maxEntries: window.maxEntries ?? LOG_MOST };
  return { kind: 'time', spanMs: ms(span, 0), slots: window.slots ?? 10, minCalls };
}

function blockLength(block: PolicyRule['block']): BlockLength {
  if (block === undefined) return DEFAULT_POLICY.block;
  const { for: length, growth = 1, max } = typeof block === 'string' ? { for: block } : block;
  const forMs = ms(length, DEFAULT_POLICY.block.forMs);
  return { forMs, growth, maxMs: ms(max, Math.max(DEFAULT_POLICY.block.maxMs, forMs)) };
}

const ms = (duration: string | number | undefined, otherwise: number) => parseDuration(duration) ?? otherwise;

/** A key given as `undefined` must not hide the layer below. */
function stripped<T extends object>(rule: T | undefined): Partial<T> {
  return Object.fromEntries(Object.entries(rule ?? {}).filter(([, value]) => value !== undefined)) as Partial<T>;
}
