import { describePolicy } from './describe.js';
import { isPattern } from './glob.js';
import type { Policy } from './policy.js';
import { BLOCKED_LEVEL } from './policy-of-rule.js';
import { namedPolicy, resolve, ruleFinder } from './rules-resolve.js';
import type { ChannelRule, RulesDocument } from './rules-schema.js';

/** One key of an effective policy, in the words of the rules document, and the layer that it was taken from. */
export type Origin = {
  readonly key: string;
  readonly value: unknown;
  /** `default`, `document` (its `mode`), `defaults`, `preset core`, `policy core`, `channel ALIPAY`, `channel pattern sms-*`. */
  readonly from: string;
};

/** What a channel is judged by, and why it is that. */
export type Explained = {
  readonly policy: Policy;
  /** The entry under `channels` that it falls under, as written; `undefined`: the rules do not name it. */
  readonly entry: string | undefined;
  /** The policy that the entry names. `own`: the document's, which takes the place of a preset of that name. */
  readonly named: { readonly name: string; readonly own: boolean } | undefined;
  readonly origins: readonly Origin[];
};

type Layer = { readonly from: string; readonly rule: ChannelRule };

/** The effective policy of a channel under a document, key by key. */
export function explainChannel(document: RulesDocument, channel: string): Explained {
  const found = ruleFinder(document)(channel);
  const { name: entry, rule = {} } = found ?? {};
  const policy = resolve(document, rule);
  const named = rule.policy === undefined ? undefined : namedPolicy(document, rule.policy);
  const layers: Layer[] = [
    ...(entry === undefined ? [] : [{ from: `channel ${isPattern(entry) ? 'pattern ' : ''}${entry}`, rule }]),
    ...(named === undefined ? [] : [{ from: `${named.own ? 'policy' : 'preset'} ${rule.policy}`, rule: named.rule }]),
    { from: 'defaults', rule: document.defaults ?? {} },
    { from: 'document', rule: { mode: document.mode } },
  ];
  return {
    policy,
    entry,
    named: named && { name: rule.policy!, own: named.own },
    origins: Object.entries(describePolicy(policy)).map(([key, value]) => ({ key, value, from: fromOf(key, layers) })),
  };
}

/** The highest layer that has the key: it is taken whole from there. @param layers the highest first */
function fromOf(key: string, layers: readonly Layer[]): string {
  const places = [layers.find(({ rule }) => rule[key as keyof ChannelRule] !== undefined)];
  if (key === 'ignore') {
    // Codes are ignored under another key too, which may come from another layer.
    const codes = layers.find(({ rule }) => rule.codes !== undefined);
    if (codes?.rule.codes?.ignored?.length) places.push(codes);
  }
  if (key === 'successRate') {
    const levels = layers.find(({ rule }) => rule.levels !== undefined);
    if (levels?.rule.levels?.[BLOCKED_LEVEL] !== undefined) return levels.from;
  }
  const names = places.flatMap((layer) => (layer === undefined ? [] : [layer.from]));
  return names.length > 0 ? [...new Set(names)].join(', ') : 'default';
}
