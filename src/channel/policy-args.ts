import { type Policy, type Window, windowTtlMs } from '../domain/policy.js';

/** The nine arguments with which every judging script begins; named in `lua/lib/channel.lua`. */
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
  ];
}

/** As `lua/lib/window.lua` reads it. */
function windowArg(window: Window): string | number {
  if (window.kind === 'count') return window.size;
  return `time:${window.spanMs}:${window.slots}:${window.minCalls}`;
}
