import { keyGraceMs, type Policy, type Window, windowTtlMs } from '../domain/policy.js';

/** The ten arguments with which every judging script begins; named in `lua/lib/channel.lua`. */
export function policyArgs(policy: Policy, freshForMs: number): (string | number)[] {
  const { mode, window, successRate, block, holdMs } = policy;
  return [
    mode,
    windowArg(window),
    successRate,
    block.forMs,
    block.growth,
    block.maxMs,
    holdMs,
    windowTtlMs(policy),
    freshForMs,
    alsoArg(policy),
  ];
}

/** As `lua/lib/window.lua` reads it. */
function windowArg(window: Window): string | number {
  switch (window.kind) {
    case 'count':
      return window.size;
    case 'time':
      return `time:${window.spanMs}:${window.slots}:${window.minCalls}`;
    case 'log':
      return `log:${window.spanMs}:${window.maxEntries}:${window.minCalls}`;
    case 'sequential':
      return `sequential:${window.up}:${window.down}:${window.limit}`;
  }
}

/** As `lua/lib/verdict.lua` and `lua/lib/move.lua` read it; empty for a plain policy, which then costs what it always did. */
function alsoArg(policy: Policy): string {
  const { slow, minFailures, maxFailures, maxConsecutiveFailures, minSources, rateLimit, halfOpen, levels } = policy;
  const also = {
    slow: slow && (slow.rate ?? 'failure'),
    ...{ minFailures, maxFailures, maxRun: maxConsecutiveFailures, minSources },
    retryMin: rateLimit?.minMs,
    retryMax: rateLimit?.maxMs,
    jitter: policy.block.jitter,
    timesMean: policy.block.ofPast?.timesMean,
    blockMin: policy.block.ofPast?.minMs,
    wait: keyGraceMs(policy) || undefined,
    manual: policy.isReleasedByHand,
    halfOpen: halfOpen && {
      steps: halfOpen.steps,
      permits: halfOpen.permits,
      close: halfOpen.close,
      reopen: halfOpen.reopens,
    },
    levels: levels?.map(({ name, line }) => [name, line]),
  };
  const text = JSON.stringify(also);
  return text === '{}' ? '' : text;
}
