import { type Policy, windowTtlMs } from '../domain/policy.js';

/** The nine arguments with which every judging script begins; named in `lua/lib/channel.lua`. */
export function policyArgs(policy: Policy, freshForMs: number): (string | number)[] {
  const { mode, window, successRate, block, holdMs } = policy;
  return [
    mode,
    window.size,
    successRate,
    block.forMs,
    block.growth,
    block.maxMs,
    holdMs,
    windowTtlMs(policy),
    freshForMs,
  ];
}
