import { classify, classOfCode, type OutcomeClass } from '../domain/classify.js';
import { formatDuration } from '../domain/duration.js';
import { DEFAULT_IGNORED_CODES, TIMEOUT } from '../domain/ignored-codes.js';
import type { Outcome } from '../domain/outcome.js';
import { type HalfOpen, type Policy, soonMs, windowTtlMs } from '../domain/policy.js';
import { callsToBlock, failuresToBlock, formatFalseBlocks } from '../domain/window/sequential-test.js';
import { roughly } from './output.js';

/** What blocks a channel under a policy, a sentence each, with the numbers at which it happens. */
export function blockingWords(policy: Policy): string[] {
  const { maxFailures, maxConsecutiveFailures, minSources } = policy;
  const bad = badCall(policy);
  return [
    ...(policy.mode === 'on' ? [] : [MODE_WORDS[policy.mode]]),
    ...windowWords(policy, bad),
    ...(maxConsecutiveFailures === undefined
      ? []
      : [
          `more than ${maxConsecutiveFailures} ${bad}s in a row block, whatever the rate: the ${ordinal(maxConsecutiveFailures + 1)}`,
        ]),
    ...(maxFailures === undefined
      ? []
      : [
          `more than ${maxFailures} ${bad}s within the window block, whatever the rate: the ${ordinal(maxFailures + 1)}`,
        ]),
    ...slowShareWords(policy),
    ...(minSources === undefined
      ? []
      : [
          `all this only if the last failures (20 at most) come from ${minSources} sources or more; outcomes without a source are one source. From fewer, people are told once in ${roughly(windowTtlMs(policy))}, and nothing is hidden`,
        ]),
    ...levelWords(policy),
    ...blockWords(policy),
  ];
}

const MODE_WORDS = {
  observe: 'mode observe: what follows is judged and told as "would have been blocked"; nothing is hidden',
  off: 'mode off: nothing is judged; what follows would hold in mode on',
};

/** What each kind of outcome counts as. */
export function countingWords(policy: Policy): string[] {
  const { ignore, codes, slow, rateLimit } = policy;
  const list = (names: readonly string[]) => names.join(', ');
  return [
    `ignored: ${list(DEFAULT_IGNORED_CODES)} in any case of letters (the caller broke the call off)${ignore.length > 0 ? `, and ${list(ignore)}` : ''}`,
    ...(codes === undefined || codes.success.length === 0
      ? []
      : [`success, whatever the caller said: ${list(codes.success)}`]),
    ...(codes === undefined || codes.failure.length === 0
      ? []
      : [`failure, whatever the caller said: ${list(codes.failure)}`]),
    `any other code, or none: what the caller said (success true or false)`,
    `a timeout (${TIMEOUT}): ${classify(policy, { success: false, code: TIMEOUT })}`,
    slow === undefined
      ? 'a slow call: as any other, because slowCall is not set'
      : `a success that took longer than ${formatDuration(slow.overMs)}: ${slow.rate === undefined ? 'a failure' : 'a slow call, with a threshold of its own'}; a failure that did: one failure`,
    rateLimit === undefined
      ? 'a time to wait (retryAfterMs): not looked at'
      : `a time to wait (retryAfterMs): hides the channel for it, ${formatDuration(rateLimit.minMs)} at least and ${formatDuration(rateLimit.maxMs)} at most; no incident, nobody is told, and not in mode observe`,
  ];
}

export type OneOutcome = Pick<Outcome, 'success' | 'code' | 'durationMs' | 'retryAfterMs'>;

/** What one outcome counts as under a policy, and by which of its fields. */
export function countOne(policy: Policy, outcome: OneOutcome): { counts: OutcomeClass; why: string } {
  const { success, code, durationMs, retryAfterMs } = outcome;
  const counts = classify(policy, outcome);
  return { counts, why: policy.mode === 'off' ? `${reason()}; but in mode off nothing is judged` : reason() };

  function reason(): string {
    const told = code === undefined ? undefined : classOfCode(policy, code);
    if (counts === 'rate-limited') {
      const { minMs = 0, maxMs = 0 } = policy.rateLimit ?? {};
      const waitMs = Math.max(minMs, Math.min(Math.ceil(retryAfterMs ?? 0), maxMs));
      return `the third party asked to wait ${formatDuration(Math.ceil(retryAfterMs ?? 0))}: hidden for ${formatDuration(waitMs)} from the end of the call`;
    }
    if (counts === 'slow') {
      const { overMs = 0, rate } = policy.slow ?? {};
      const how = rate === undefined ? 'counts as a failure' : 'counts as slow, which has a threshold of its own';
      return `it took ${formatDuration(Math.ceil(durationMs ?? 0))}, longer than ${formatDuration(overMs)}, and ${how}`;
    }
    if (told !== undefined) return `the rules say so of the code ${code}`;
    return `${code === undefined ? 'there is no code' : `the rules do not name the code ${code}`}, so what the caller said holds: success ${success}`;
  }
}

function windowWords(policy: Policy, bad: string): string[] {
  const { window, successRate, minFailures = 0 } = policy;
  const from = minFailures > 1 ? `, and from ${minFailures} ${bad}s on` : '';
  if (window.kind === 'sequential') {
    const { up, down, limit, healthy, failing, falseBlocks } = window;
    const every = (share: number) => whole(callsToBlock(window, share / 10_000));
    return [
      `a ${bad} adds ${up} to a score, a success takes ${down} away, never below 0: blocked from ${limit} on${from} (successRate is not asked)`,
      `${Math.max(failuresToBlock(window), minFailures)} ${bad}s in a row block`,
      `falsely, once in ${every(healthy)} calls where exactly ${healthy / 100} % succeed (wanted: ${formatFalseBlocks(falseBlocks)} at most); rightly, after ${every(failing)} calls on average where ${failing / 100} % do`,
    ];
  }
  if (successRate === 0) return ['the success rate blocks nothing: its threshold is 0'];
  const threshold = `${successRate / 100} %`;
  const nth = (calls: number) => ordinal(Math.max(firstBad(calls, successRate), minFailures));
  if (window.kind === 'count')
    return [
      `the ${nth(window.size)} ${bad} among the last ${window.size} calls blocks: fewer than ${threshold} have succeeded then; calls not yet seen count as successes`,
    ];
  const { spanMs, minCalls } = window;
  const kept = window.kind === 'log' ? `; ${whole(window.maxEntries)} calls are kept at most` : '';
  return [
    `a ${bad} blocks that leaves fewer than ${threshold} successes among all calls of the last ${formatDuration(spanMs)}, from ${minCalls} calls on${from}: of ${minCalls} calls the ${nth(minCalls)}${kept}`,
  ];
}

/** The number of bad calls from which strictly fewer than the threshold are good. @param threshold hundredths of a percent, above 0 */
function firstBad(calls: number, threshold: number): number {
  return Math.floor((calls * (10_000 - threshold)) / 10_000) + 1;
}

function slowShareWords({ slow, window }: Policy): string[] {
  if (slow?.rate === undefined || window.kind === 'sequential') return [];
  const calls = window.kind === 'count' ? window.size : window.minCalls;
  const share = `more than ${slow.rate / 100} % slow calls (longer than ${formatDuration(slow.overMs)}) block`;
  if (slow.rate === 10_000) return [`${share}: never`];
  const nth = ordinal(Math.floor((calls * slow.rate) / 10_000) + 1);
  return [
    window.kind === 'count'
      ? `${share}: the ${nth} of ${calls}`
      : `${share}, from ${calls} calls on: of ${calls} calls the ${nth}`,
  ];
}

function blockWords({ block, holdMs, halfOpen, isReleasedByHand }: Policy): string[] {
  const { forMs, growth, maxMs, jitter = 0, ofPast } = block;
  const longer = growth === 1 ? '' : `, ${growth} times as long with each relapse, ${formatDuration(maxMs)} at most`;
  const watched =
    holdMs === 0
      ? 'it is not watched afterwards'
      : `then it is watched for ${formatDuration(holdMs)}, and a block within that is a relapse`;
  return [
    `a block lasts ${formatDuration(forMs)}${jitter === 0 ? '' : ` (give or take ${Math.round(jitter * 100)} %)`}${longer}; ${watched}`,
    ...(ofPast === undefined
      ? []
      : [
          `once three outages are known, an incident's first block lasts ${ofPast.timesMean} times the mean of the last ten, from ${formatDuration(ofPast.minMs)} to ${formatDuration(maxMs)}; an outage counts from its first block to the last that came at once, within ${formatDuration(soonMs(block))} of use`,
        ]),
    ...(isReleasedByHand ? ['it does not end by itself: people are reminded, until one of them unblocks'] : []),
    ...(halfOpen === undefined ? [] : [halfOpenWords(halfOpen)]),
  ];
}

function halfOpenWords({ steps, permits, close, waitMs, reopens }: HalfOpen): string {
  const shares = steps.map((share) =>
    share === 0 ? `${permits} ${permits === 1 ? 'call' : 'calls'} at once` : `${share / 100} % of users`,
  );
  const otherwise = reopens ? 'blocked again' : 'closed';
  return `at its end it is tried with ${shares.join(', then ')}: ${close} good outcomes end a step, a bad one blocks again, and after ${formatDuration(waitMs)} it is ${otherwise}`;
}

function levelWords({ levels = [] }: Policy): string[] {
  if (levels.length === 0) return [];
  return [
    `below ${levels.map(({ name, line }) => `${line / 100} % it is ${name}`).join(', below ')}: told, not hidden`,
  ];
}

function badCall({ slow }: Policy): string {
  return slow !== undefined && slow.rate === undefined ? 'failed or slow call' : 'failure';
}

function ordinal(n: number): string {
  const ending = n % 100 >= 11 && n % 100 <= 13 ? 'th' : (['th', 'st', 'nd', 'rd'][n % 10] ?? 'th');
  return `${n}${ending}`;
}

const whole = (n: number) => Math.round(n).toLocaleString('en-US');
