import type { Policy } from '../domain/policy.js';
import type { Transition } from '../domain/transition.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { loadScript, runScript } from '../redis/script.js';
import { readOutbox, splitReply } from './outbox.js';
import { policyArgs } from './policy-args.js';

const script = loadScript('override');

/**
 * What an operator asks for.
 *
 * - `block`: `forMs` is its length; 0 takes the policy's, -1 has no end.
 * - `unblock`: `forMs` above 0 also holds the channel open, not judged, for so long.
 */
export type Override = {
  readonly action: 'block' | 'unblock';
  readonly forMs: number;
  readonly actor: string;
  readonly note: string;
};

/** `until`: end of the block in Redis ms, -1 without end, 0 when not blocked. `pushed` is 0 when there was nothing to change. */
export type Overridden = {
  readonly pushed: number;
  readonly dueAt: number;
  readonly nowMs: number;
  readonly blocked: boolean;
  readonly until: number;
  readonly outbox: readonly Transition[];
};

/** Blocks or unblocks a channel by hand. The caller puts the channel on the agenda first, and announces what comes back. */
export async function override(
  client: RedisClient,
  keys: Keys,
  channel: string,
  policy: Policy,
  freshForMs: number,
  hand: Override,
): Promise<Overridden> {
  const args = [...policyArgs(policy, freshForMs), hand.action, hand.forMs, hand.actor, hand.note];
  const { numbers, texts } = splitReply(await runScript(client, script, keys.channel(channel), args), 5);
  const [pushed, dueAt, nowMs, blocked, until] = numbers as [number, number, number, number, number];
  return { pushed, dueAt, nowMs, blocked: blocked === 1, until, outbox: readOutbox(channel, texts) };
}
