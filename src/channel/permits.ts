import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { loadScript, runScript } from '../redis/script.js';

const script = loadScript('lend');

/** `owner` names one call in the whole fleet. */
export type PermitRequest = { readonly owner: string; readonly leaseMs: number; readonly permits: number };

/**
 * Lends a permit for one call to a half-open channel, until it is given back or `leaseMs` are over by Redis time. Asking again for the
 * same owner is harmless.
 *
 * @returns false: all `permits` are out, or the channel is not half-open (any more)
 * @throws what Redis answers
 */
export async function lendPermit(
  client: RedisClient,
  keys: Keys,
  channel: string,
  { owner, leaseMs, permits }: PermitRequest,
): Promise<boolean> {
  const declared = [keys.blocked(channel), keys.permits(channel)];
  return (await runScript(client, script, declared, [owner, Math.ceil(leaseMs), permits])) === 1;
}

/** Gives a permit back. One that is past its deadline, or was never lent, is nothing to give. @throws what Redis answers */
export async function giveBackPermit(client: RedisClient, keys: Keys, channel: string, owner: string): Promise<void> {
  await client.zrem(keys.permits(channel), owner);
}
