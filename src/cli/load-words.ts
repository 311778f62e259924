import type { LoadByHand } from '../channel/load.js';
import { describePolicy } from '../domain/describe.js';
import { type Factors, isAsWritten, MOST_FACTORS, scaledPolicy } from '../domain/dynamic.js';
import type { Policy } from '../domain/policy.js';
import { localTime, roughly } from './output.js';
import type { LoadInForce } from './rules-under-load.js';

const times = (factor: number) => `× ${Number(factor.toFixed(2))}`;

/** `windows × 1.5, tolerated failures × 1.2` */
export function factorWords(factors: Factors): string {
  if (isAsWritten(factors)) return 'channels are judged as the rules say';
  return `windows ${times(factors.window)}, tolerated failures ${times(factors.rate)}`;
}

/** `0.8, set by ann until …` */
export function handWords({ load, until, actor }: LoadByHand, nowMs: number): string {
  const ends =
    until === -1 ? 'until somebody clears it' : `until ${localTime(until)} (${roughly(until - nowMs + 500)})`;
  return `${load}, set by ${actor || 'hand'} ${ends}`;
}

/** The line of `status`. @param nowMs Redis ms */
export function loadLine({ factors, last, hand }: LoadInForce, nowMs: number): string {
  const measured = last === undefined ? 'unknown' : String(Number(last.load.toFixed(2)));
  return `load ${hand ? handWords(hand, nowMs) : measured}: ${factorWords(factors)}`;
}

/**
 * What the load does to a policy, for `rules explain`; nothing where it is not dynamic. `factors`: those in force; `undefined` unknown.
 */
export function dynamicWords(policy: Policy, factors: Factors | undefined): string[] {
  if (!policy.isDynamic) return [];
  if (policy.window.kind === 'sequential')
    return ['dynamic changes nothing here: a sequential test keeps the two rates that it was made for'];
  const by = (at: Factors) => `${factorWords(at)}: ${numbers(scaledPolicy(policy, at))}`;
  return [
    ...(factors === undefined ? [] : [isAsWritten(factors) ? 'now as written' : `now ${by(factors)}`]),
    `at most ${by(MOST_FACTORS)}`,
  ];
}

function numbers(policy: Policy): string {
  return `window ${windowWords(policy)}, successRate ${describePolicy(policy).successRate}`;
}

/** A window in one line, in the words of the rules. */
export function windowWords(policy: Policy): string {
  const { window } = describePolicy(policy);
  if (typeof window === 'number') return String(window);
  return Object.entries(window)
    .map(([key, value]) => `${key} ${value}`)
    .join(', ');
}
