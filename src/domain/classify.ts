import { glob, isPattern } from './glob.js';
import { isIgnoredByDefault } from './ignored-codes.js';
import type { Outcome } from './outcome.js';
import type { Policy } from './policy.js';

/**
 * How an outcome goes to the script: `1` success, `0` failure, `2` a success that may have been sent before (direct mode), `3` a success
 * that was slow, `4` the third party asked to wait; or not at all.
 */
export type OutcomeClass = 'success' | 'failure' | 'slow' | 'rate-limited' | 'ignored';

/** What the script gets to see. */
export type JudgedClass = Exclude<OutcomeClass, 'ignored'>;

const RESULTS = { success: '1', failure: '0', slow: '3', 'rate-limited': '4' } as const;
/** One character of a batch's results. */
export type Result = (typeof RESULTS)[keyof typeof RESULTS] | '2';

/** The character that stands for a class in a batch. */
export function resultOf(kind: JudgedClass): Result {
  return RESULTS[kind];
}

/**
 * What an outcome says of its channel under a policy. In this order: its code (see {@link classOfCode}); a time to wait, where the policy
 * follows it; the caller's own `success`; its duration. So a call that failed and was slow is one failure.
 */
export function classify(
  policy: Policy,
  { success, code, durationMs, retryAfterMs }: Pick<Outcome, 'success' | 'code' | 'durationMs' | 'retryAfterMs'>,
): OutcomeClass {
  const told = code === undefined ? undefined : classOfCode(policy, code);
  if (told === 'ignored') return told;
  if (retryAfterMs !== undefined && retryAfterMs > 0 && policy.rateLimit !== undefined) return 'rate-limited';
  if (told === 'failure' || (told === undefined && !success)) return 'failure';
  return policy.slow !== undefined && durationMs !== undefined && durationMs > policy.slow.overMs ? 'slow' : 'success';
}

type CodeClass = 'success' | 'failure' | 'ignored';
const matchers = new WeakMap<Policy, (code: string) => CodeClass | undefined>();

/**
 * What the policy says of a code: the exact code beats every pattern, then `ignored` beats `success`, and that beats `failure`. Codes that
 * every policy leaves out match whatever their case. `undefined`: nothing, so the caller's own `success` holds, as it does for a timeout.
 */
export function classOfCode(policy: Policy, code: string): CodeClass | undefined {
  if (isIgnoredByDefault(code)) return 'ignored';
  if (policy.ignore.length === 0 && policy.codes === undefined) return undefined;
  let matcher = matchers.get(policy);
  if (!matcher) {
    matcher = matcherOf(policy);
    matchers.set(policy, matcher);
  }
  return matcher(code);
}

function matcherOf({ ignore, codes }: Policy): (code: string) => CodeClass | undefined {
  const lists: [CodeClass, readonly string[]][] = [
    ['ignored', ignore],
    ['success', codes?.success ?? []],
    ['failure', codes?.failure ?? []],
  ];
  const exact = new Map<string, CodeClass>();
  const patterns: [matches: (code: string) => boolean, kind: CodeClass][] = [];
  for (const [kind, list] of lists) {
    for (const each of list) {
      if (isPattern(each)) patterns.push([glob(each), kind]);
      else if (!exact.has(each)) exact.set(each, kind);
    }
  }
  return (code) => exact.get(code) ?? patterns.find(([matches]) => matches(code))?.[1];
}
