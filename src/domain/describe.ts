import { formatDuration } from './duration.js';
import { DEFAULT_POLICY, type Policy, type SlowCalls } from './policy.js';
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
  const { forMs, growth, maxMs } = policy.block;
  const isPlain = growth === 1 && maxMs === Math.max(DEFAULT_POLICY.block.maxMs, forMs);
  const { codes, slow, minFailures, maxFailures, maxConsecutiveFailures, minSources, rateLimit, group } = policy;
  const beyond = {
    codes: codes && { success: [...codes.success], failure: [...codes.failure] },
    ...(slow === undefined ? {} : describeSlow(slow)),
    ...{ minFailures, maxFailures, maxConsecutiveFailures, minSources },
    rateLimited: rateLimit && { min: formatDuration(rateLimit.minMs), max: formatDuration(rateLimit.maxMs) },
    group,
  };
  return {
    mode: policy.mode,
    window: describeWindow(policy.window),
    successRate: policy.successRate / 100,
    block: isPlain ? formatDuration(forMs) : { for: formatDuration(forMs), growth, max: formatDuration(maxMs) },
    hold: formatDuration(policy.holdMs),
    ignore: [...policy.ignore],
    ...Object.fromEntries(Object.entries(beyond).filter(([, value]) => value !== undefined)),
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
