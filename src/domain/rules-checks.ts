import { show } from './channel-name.js';
import { parseDuration } from './duration.js';
import { BLOCKED_LEVEL } from './policy-of-rule.js';
import type { PolicyRule } from './policy-schema.js';
import { type Problem, problemAt } from './rules-problems.js';
import { mergeRule } from './rules-resolve.js';
import type { RulesDocument } from './rules-schema.js';

/** Keys that do not go together in what is in force for a channel, wherever each of them was written. */
export function checkCombinations(document: RulesDocument): Problem[] {
  const inForce: [path: string[], rule: PolicyRule][] = [
    [['defaults'], mergeRule(document, {})],
    ...Object.entries(document.channels ?? {}).map(([name, rule]): [string[], PolicyRule] => [
      ['channels', name],
      mergeRule(document, rule),
    ]),
  ];
  return inForce.flatMap(([path, rule]) => combinations(rule).map((message) => problemAt(path, message)));
}

function combinations(rule: PolicyRule): string[] {
  const { slowCall, slowAs, slowRate, maxFailures, minFailures, window = 10 } = rule;
  const kind = typeof window === 'number' ? 'count' : window.kind;
  const size = typeof window === 'number' ? window : window.kind === 'count' ? window.size : undefined;
  const found: string[] = [];
  if (slowCall === undefined && (slowAs ?? slowRate) !== undefined)
    found.push(
      `${slowRate === undefined ? 'slowAs' : 'slowRate'} needs slowCall, which says how long a slow call takes`,
    );
  if (slowAs !== undefined && slowRate !== undefined)
    found.push(`slowAs and slowRate exclude each other: a slow call is a failure, or has a threshold of its own`);
  if (slowRate !== undefined && kind === 'sequential')
    found.push(
      `slowRate ${slowRate} does not go with a sequential test, which has no window to take a share of; slowAs does`,
    );
  if (maxFailures !== undefined && kind !== 'time' && kind !== 'log')
    found.push(
      `maxFailures ${maxFailures} does not go with a window of kind ${kind}, got window ${show(window)}: kinds time and log have it`,
    );
  if (minFailures !== undefined && size !== undefined && minFailures > size)
    found.push(`minFailures ${minFailures} can never be reached in a window of ${size}`);
  if (typeof window === 'object' && window.kind === 'log' && (window.minCalls ?? 5) > (window.maxEntries ?? Infinity))
    found.push(`minCalls ${window.minCalls ?? 5} can never be reached with maxEntries ${window.maxEntries}`);
  if (rule.release === 'manual' && rule.halfOpen !== undefined)
    found.push(
      'release: manual and halfOpen exclude each other: a block that waits for a person never gets to the trial',
    );
  return [...found, ...blockLengths(rule), ...codesTwice(rule), ...levelsOutOfReach(rule, kind)];
}

/** People are reminded each time that a block which waits for them would have ended. */
const REMINDED_LEAST_MS = 60_000;

function blockLengths({ block, hold, release }: PolicyRule): string[] {
  const {
    for: length,
    timesMean,
    jitter = 0,
  }: Partial<Exclude<typeof block, string | undefined>> = typeof block === 'object' ? block : { for: block };
  const found: string[] = [];
  if (
    release === 'manual' &&
    (parseDuration(length) ?? 30 * REMINDED_LEAST_MS) * (1 - jitter / 100) < REMINDED_LEAST_MS
  )
    found.push(
      `release: manual reminds people each block, which must last 1m or more${jitter > 0 ? `, jitter of ${jitter} % taken off` : ''}, got ${show(length)}`,
    );
  if (release === 'manual' && timesMean !== undefined)
    found.push('release: manual and block.timesMean exclude each other: people say how long such a block lasts');
  if (timesMean !== undefined && parseDuration(hold) === 0)
    found.push(
      'block.timesMean needs a hold: without one each block is an incident of its own, and there is nothing to learn',
    );
  return found;
}

function codesTwice({ ignore = [], codes = {} }: PolicyRule): string[] {
  const seen = new Map<string, string>();
  const lists = {
    success: codes.success ?? [],
    failure: codes.failure ?? [],
    ignored: [...(codes.ignored ?? []), ...ignore],
  };
  return Object.entries(lists).flatMap(([list, names]) =>
    names.flatMap((name) => {
      const other = seen.get(name) ?? list;
      seen.set(name, other);
      return other === list ? [] : [`the code ${show(name)} cannot be ${other} and ${list}`];
    }),
  );
}

function levelsOutOfReach({ levels, successRate = 70 }: PolicyRule, kind: string): string[] {
  if (levels === undefined) return [];
  if (kind === 'sequential') return ['levels do not go with a sequential test, which knows no rate'];
  const blocked = levels[BLOCKED_LEVEL] ?? successRate;
  return Object.entries(levels).flatMap(([name, line]) =>
    name === BLOCKED_LEVEL || line > blocked
      ? []
      : [`the level ${name} at ${line} can never be reached: below ${blocked} the channel is blocked`],
  );
}
