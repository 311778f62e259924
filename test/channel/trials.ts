import type { HalfOpen, Policy } from '../../src/domain/policy.js';
import { bench, type PolicyInput, policyOf, START, Twin } from './support.js';

/** How long a trial may last; END is the end of the block, and so its beginning. */
export const WAIT_MS = 30_000;
export const END = START + 60_000;
export const DEADLINE = END + WAIT_MS;

const HALF_OPEN: HalfOpen = { steps: [1_000], permits: 1, close: 3, waitMs: WAIT_MS, reopens: false };

/** C10 with growing blocks and a trial: a tenth of users, three good outcomes, 30 s. */
export function trying(halfOpen: Partial<HalfOpen> = {}, more: PolicyInput = {}): Policy {
  return policyOf({ growth: 2, ...more, halfOpen: { ...HALF_OPEN, ...halfOpen } });
}

/** Blocked at START, and on trial since a millisecond. */
export async function onTrial(policy = trying()): Promise<Twin> {
  const channel = new Twin(await bench());
  await channel.record('FFF', policy);
  channel.pass(60_000);
  await channel.recover(policy);
  channel.pass(1);
  return channel;
}
