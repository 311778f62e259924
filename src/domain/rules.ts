import { ChannelNameError, canonicalChannel, show } from './channel-name.js';
import { parseDuration } from './duration.js';
import type { Policy } from './policy.js';
import type { PolicyRule } from './policy-schema.js';
import { PRESET_NAMES } from './presets.js';
import type { Receiver, Route } from './receiver.js';
import { checkCombinations } from './rules-checks.js';
import { atMost, explainIssues, type Problem, problemAt } from './rules-problems.js';
import { namedPolicy, policyResolver, policyRules, resolveReceivers } from './rules-resolve.js';
import { type FlatRules, FlatRules as FlatSchema, RulesDocument } from './rules-schema.js';

/** Largest document, in UTF-8 bytes of JSON or of the text as written. */
export const RULES_MAX_BYTES = 1 << 20;

/** One document, checked as a whole and ready to answer. Never changes; a new document is a new object. */
export type Rules = {
  /** The document's own `version`; 0 when it has none. */
  readonly version: number;
  /** No document, or one without content: every channel is observed. */
  readonly empty: boolean;
  /** Full form, also when the flat form was written. */
  readonly document: RulesDocument;
  policyFor(channel: string): Policy;
  /** 0 for a group that the rules do not name. */
  minVisible(group: string): number;
  readonly namedChannels: readonly string[];
  /** Groups into which a pattern puts channels that the rules do not name. */
  readonly patternGroups: ReadonlySet<string>;
  /** Some policy is dynamic. */
  readonly hasDynamic: boolean;
  readonly receivers: readonly Receiver[];
  readonly routes: readonly Route[];
};

export type ParsedRules =
  | { readonly ok: true; readonly rules: Rules; readonly warnings: readonly Problem[] }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/**
 * Checks a rules document (a value, as JSON or YAML gives it) as a whole: one broken item refuses all of it, and every broken item
 * is named. Nothing (`undefined`, `null`, `''`, `[]`, `{}`) is accepted as the empty document, with a warning. Never throws.
 */
export function parseRulesValue(value: unknown): ParsedRules {
  if (isEmptyDocument(value))
    return { ok: true, rules: makeRules({}, true), warnings: [{ path: '', message: EMPTY_WARNING }] };
  const refused = refuseShape(value);
  if (refused !== undefined) return { ok: false, problems: [refused] };
  const flat = isFlat(value as object);
  const checked = (flat ? FlatSchema : RulesDocument).safeParse(value);
  if (!checked.success) return { ok: false, problems: explainIssues(checked.error.issues, value) };
  const document = flat ? fromFlat(checked.data as FlatRules) : (checked.data as RulesDocument);
  const problems = crossCheck(document, flat);
  if (problems.length > 0) return { ok: false, problems: atMost(problems) };
  return { ok: true, rules: makeRules(document, false), warnings: warningsOf(document) };
}

/** Whether a value holds no rules at all. Over a running document it needs a confirmation: it would switch every block off. */
export function isEmptyDocument(value: unknown): boolean {
  if (value === undefined || value === null) return true;
  if (typeof value === 'string') return value.trim() === '';
  return typeof value === 'object' && Object.keys(value).length === 0;
}

const EMPTY_WARNING = 'there are no rules: every channel is observed with the defaults, none is blocked';

function makeRules(document: RulesDocument, empty: boolean): Rules {
  const groups = new Map(Object.entries(document.groups ?? {}));
  return {
    version: document.version ?? 0,
    empty,
    document,
    policyFor: policyResolver(document),
    minVisible: (group) => groups.get(group)?.minVisible ?? 0,
    namedChannels: Object.keys(document.channels ?? {}).flatMap((name) =>
      name.includes('*') ? [] : [name.normalize('NFC')],
    ),
    patternGroups: new Set(
      Object.entries(document.channels ?? {}).flatMap(([name, { group }]) =>
        name.includes('*') && group !== undefined ? [group] : [],
      ),
    ),
    hasDynamic: policyRules(document).some(([, { dynamic }]) => dynamic === true),
    receivers: resolveReceivers(document),
    routes: (document.routes ?? []).map(({ match = {}, to }) => ({ match, to })),
  };
}

/** What zod does not see: shape, size, and keys that JavaScript treats as something else than a name. */
function refuseShape(value: unknown): Problem | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return {
      path: '',
      message: `the rules must be a mapping, got ${Array.isArray(value) ? 'a list' : `a ${typeof value}`}`,
    };
  }
  let text: string;
  try {
    text = JSON.stringify(value);
  } catch {
    return { path: '', message: 'the rules must be plain data, got something that JSON cannot hold' };
  }
  const bytes = Buffer.byteLength(text);
  if (bytes > RULES_MAX_BYTES)
    return { path: '', message: `the rules must have at most ${RULES_MAX_BYTES} bytes, got ${bytes}` };
  for (const [section, part] of Object.entries({ '': value, ...value })) {
    if (typeof part === 'object' && part !== null && Object.hasOwn(part, '__proto__')) {
      return { path: section === '' ? '__proto__' : `${section}.__proto__`, message: '__proto__ cannot be a name' };
    }
  }
  return undefined;
}

const FLAT_KEYS = ['switchMode', 'windowSize', 'successRate', 'blockMinutes'];
function isFlat(value: object): boolean {
  return FLAT_KEYS.some((key) => Object.hasOwn(value, key));
}

function fromFlat(flat: FlatRules): RulesDocument {
  const { switchMode = 'off', windowSize = 10, successRate = 70, blockMinutes = 30 } = flat;
  const isSwitch = switchMode === 'on' || switchMode === 'off';
  const names = isSwitch ? [] : switchMode.split(',').map((name) => name.trim());
  return {
    ...(flat.version === undefined ? {} : { version: flat.version }),
    mode: isSwitch ? switchMode : 'off',
    defaults: { window: windowSize, successRate, block: `${blockMinutes}m` },
    channels: Object.fromEntries(names.filter(Boolean).map((name) => [name, { mode: 'on' as const }])),
  };
}

/** Rules that concern two places of the document. */
function crossCheck(document: RulesDocument, flat: boolean): Problem[] {
  const { channels = {}, receivers = {}, routes = [] } = document;
  const names = Object.keys(channels);
  if (flat) {
    return names.flatMap((name) => {
      const wrong = name.includes('*')
        ? `switchMode takes whole names, not patterns, got ${show(name)}`
        : nameProblem(name);
      return wrong === undefined ? [] : [problemAt(['switchMode'], wrong)];
    });
  }
  const seen = new Map<string, string>();
  return [
    ...names.flatMap((name) => {
      const wrong = nameProblem(name);
      if (wrong !== undefined) return [problemAt(['channels', name], wrong)];
      const canonical = name.normalize('NFC');
      if (seen.has(canonical))
        return [problemAt(['channels', name], 'is the same channel twice: two spellings of one name (NFC)')];
      seen.set(canonical, name);
      return [];
    }),
    ...Object.entries(channels).flatMap(([name, { policy }]) =>
      policy === undefined || namedPolicy(document, policy) !== undefined
        ? []
        : [
            problemAt(
              ['channels', name, 'policy'],
              `policy must be one of those under policies or a preset (${PRESET_NAMES.join(', ')}), got ${show(policy)}`,
            ),
          ],
    ),
    ...policyRules(document).flatMap(([path, rule]) => blockProblem(path, rule)),
    ...checkCombinations(document),
    ...Object.keys(receivers).flatMap((name) =>
      /^[a-z0-9-]{1,64}$/.test(name)
        ? []
        : [problemAt(['receivers', name], 'a receiver is named with 1 to 64 of a-z, 0-9 and -')],
    ),
    ...routes.flatMap((route, i) =>
      route.to.flatMap((name) =>
        Object.hasOwn(receivers, name)
          ? []
          : [problemAt(['routes', i, 'to'], `to must name receivers of this document, got ${show(name)}`)],
      ),
    ),
  ];
}

function blockProblem(path: readonly string[], { block }: PolicyRule): Problem[] {
  if (typeof block !== 'object' || block.max === undefined) return [];
  if ((parseDuration(block.max) ?? 0) >= (parseDuration(block.for) ?? 0)) return [];
  return [
    problemAt(
      [...path, 'block'],
      `block.max must not be shorter than block.for, got max ${block.max} and for ${block.for}`,
    ),
  ];
}

function nameProblem(name: string): string | undefined {
  try {
    canonicalChannel(name);
    return undefined;
  } catch (error) {
    if (error instanceof ChannelNameError) return error.message;
    throw error;
  }
}

function warningsOf(document: RulesDocument): Problem[] {
  const groups = new Set(Object.values(document.channels ?? {}).map((rule) => rule.group));
  return [
    ...(document.mode === undefined
      ? [{ path: 'mode', message: 'mode is missing: channels without a mode of their own are observed, not blocked' }]
      : []),
    ...Object.entries(document.receivers ?? {}).flatMap(([name, { secret }]) =>
      secret === undefined || /^(env|file):/.test(secret)
        ? []
        : [
            problemAt(
              ['receivers', name, 'secret'],
              'the secret is written in clear; env:NAME or file:/path keeps it out of the rules',
            ),
          ],
    ),
    ...(document.routes ?? []).flatMap(({ match }, i) =>
      match?.group === undefined || groups.has(match.group)
        ? []
        : [problemAt(['routes', i, 'match', 'group'], `no channel of this document is in group ${show(match.group)}`)],
    ),
  ];
}
