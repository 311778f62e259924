import { formatDuration } from './duration.js';
import { type BlockLength, DEFAULT_POLICY, type HalfOpen, type Policy, type SlowCalls } from './policy.js';
import { BLOCKED_LEVEL } from './policy-of-rule.js';
import type { PolicyRule } from './policy-schema.js';
import { formatFalseBlocks } from './window/sequential-test.js';

/** What every policy has, in the words of the rules document. */
type Described = PolicyRule &
  Required<Pick<PolicyRule, 'mode' | 'window' | 'successRate' | 'block' | 'hold' | 'ignore'>> & { group?: string };

/**
 * An effective policy in the words of the rules document, for people: durations as text, rates as percentages. What is absent is not
 * asked for. Read back as a rule it gives the same policy.
 */
export function describePolicy(policy: Policy): Described {
  const { codes, slow, minFailures, maxFailures, maxConsecutiveFailures, minSources, rateLimit, group } = policy;
  const { halfOpen, isReleasedByHand, levels, isDynamic } = policy;
  const beyond = {
    codes: codes && { success: [...codes.success], failure: [...codes.failure] },
    ...(slow === undefined ? {} : describeSlow(slow)),
    ...{ minFailures, maxFailures, maxConsecutiveFailures, minSources, dynamic: isDynamic },
    rateLimited: rateLimit && { min: formatDuration(rateLimit.minMs), max: formatDuration(rateLimit.maxMs) },
    halfOpen: halfOpen && describeHalfOpen(halfOpen),
    release: isReleasedByHand && 'manual',
    levels: levels && {
      ...Object.fromEntries(levels.map(({ name, line }) => [name, line / 100])),
      // A line of 0 cannot be written there: nothing is below it.
      ...(policy.successRate === 0 ? {} : { [BLOCKED_LEVEL]: policy.successRate / 100 }),
    },
    group,
  };
  return {
    mode: policy.mode,
    window: describeWindow(policy.window),
    successRate: policy.successRate / 100,
    block: describeBlock(policy.block),
    hold: formatDuration(policy.holdMs),
    ignore: [...policy.ignore],
    ...Object.fromEntries(Object.entries(beyond).filter(([, value]) => value !== undefined)),
  };
}

function describeBlock({ forMs, growth, maxMs, jitter, ofPast }: BlockLength): NonNullable<PolicyRule['block']> {
  const length = formatDuration(forMs);
  const isLongest = maxMs === Math.max(DEFAULT_POLICY.block.maxMs, forMs);
  const isPlain = growth === 1 && jitter === undefined && ofPast === undefined && isLongest;
  if (isPlain) return length;
  const percent = jitter === undefined ? {} : { jitter: Math.round(jitter * 10_000) / 100 };
  const past = ofPast && { timesMean: ofPast.timesMean, min: formatDuration(ofPast.minMs) };
  return { for: length, growth, max: formatDuration(maxMs), ...percent, ...past };
}

function describeHalfOpen({ steps, permits, close, waitMs, reopens }: HalfOpen): NonNullable<PolicyRule['halfOpen']> {
  const [first = 0, ...ramp] = steps.map((share) => share / 100);
  return {
    ...(first === 0 ? { permits } : { percent: first }),
    ...{ close, wait: formatDuration(waitMs), atDeadline: reopens ? 'open' : 'close' },
    ...(ramp.length === 0 ? {} : { ramp }),
  };
}

function describeSlow({ overMs, rate }: SlowCalls): PolicyRule {
  const slowCall = formatDuration(overMs);
  return rate === undefined ? { slowCall, slowAs: 'failure' } : { slowCall, slowRate: rate / 100 };
}

function describeWindow(window: Policy['window']): NonNullable<PolicyRule['window']> {
  switch (window.kind) {
    case 'count':
      return window.size;
    case 'time':
      return { kind: 'time', span: formatDuration(window.spanMs), slots: window.slots, minCalls: window.minCalls };
    case 'log': {
      const { spanMs, minCalls, maxEntries } = window;
      return { kind: 'log', span: formatDuration(spanMs), minCalls, maxEntries };
    }
    case 'sequential': {
      const { healthy, failing, falseBlocks } = window;
      return {
        kind: 'sequential',
        healthy: healthy / 100,
        failing: failing / 100,
        falseBlocks: formatFalseBlocks(falseBlocks),
      };
    }
  }
}
