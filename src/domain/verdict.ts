import type { Policy } from './policy.js';
import type { Evidence } from './transition.js';
import type { WindowModel } from './window/window.js';

/** Whether one call (a character of a batch's results) counts as a failure. */
export function isBad({ slow }: Policy, result: string): boolean {
  return result === '0' || (result === '3' && slow !== undefined && slow.rate === undefined);
}

/** The calls of a window that count as failures under a policy. */
export function badIn({ slow }: Policy, window: WindowModel): number {
  return window.failures + (slow !== undefined && slow.rate === undefined ? window.slow : 0);
}

/**
 * Why the calls of a window block their channel; `undefined`: they do not. The twin of `lua/lib/verdict.lua`. Every comparison is strict:
 * equality never blocks.
 *
 * @param run failures in a row
 */
export function whyBlocked(policy: Policy, window: WindowModel, run: number): string | undefined {
  const { slow, minFailures = 0, maxFailures = Infinity, maxConsecutiveFailures = Infinity } = policy;
  const bad = badIn(policy, window);
  let why: string | undefined;
  if (run > maxConsecutiveFailures) why = 'consecutive-failures';
  else if (bad > maxFailures) why = 'too-many-failures';
  else if (window.isJudged()) {
    if (bad >= minFailures && window.isFailing(bad, policy.successRate)) why = window.reason;
    else if (slow?.rate !== undefined && window.slow * 10_000 > slow.rate * window.total) return 'slow-calls';
  }
  // People want to know what to look for: what tripped it is what there was more of.
  const isSlowness = slow !== undefined && slow.rate === undefined && window.slow > window.failures;
  return why !== undefined && isSlowness ? 'slow-calls' : why;
}

/** Hundredths of a percent above its line at which a level is left. */
const CLEARANCE = 500;

/**
 * The level that a window asks for, coming from `current`; '' none. A level that the channel is at, and those less bad, are left only with
 * clearance, so that a rate which wavers round a line makes one change; where calls are too few to judge, when none of them is bad.
 */
export function levelOf(policy: Policy, window: WindowModel, current: string): string {
  if (!window.isJudged()) return badIn(policy, window) > 0 ? current : '';
  const good = (window.total - badIn(policy, window)) * 10_000;
  let isWithin = false;
  for (const { name, line } of policy.levels ?? []) {
    isWithin ||= name === current;
    if (good < (line + (isWithin ? CLEARANCE : 0)) * window.total) return name;
  }
  return '';
}

/** How many sources the evidence names; what names none is one source more. */
export function sourcesOf(evidence: readonly Evidence[]): number {
  return new Set(evidence.map(({ source }) => source ?? '')).size;
}
