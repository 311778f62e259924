import type { RedisClient } from '../../redis/client.js';
import { withDeadline } from '../../redis/deadline.js';
import type { Keys } from '../../redis/keys.js';
import { loadScript, runScript } from '../../redis/script.js';
import { CALL_MS } from './options.js';

const lease = loadScript('lease');

/**
 * Takes a shard's lease if it is free, or renews one's own. Leases save work and nothing else: with two owners at once order and fence
 * still make every outcome count once.
 *
 * @throws what Redis answers, or no answer within 2 s: the lease may then be held or not
 */
export async function holdLease(
  client: RedisClient,
  keys: Keys,
  shard: number,
  worker: string,
  leaseMs: number,
): Promise<boolean> {
  return (await call(runScript(client, lease, [keys.lease(shard)], [worker, leaseMs]))) === 1;
}

/** Gives a lease back, if it is one's own. */
export async function releaseLease(client: RedisClient, keys: Keys, shard: number, worker: string): Promise<void> {
  await call(runScript(client, lease, [keys.lease(shard)], [worker, 0]));
}

const call = <T>(promise: Promise<T>) => withDeadline(promise, CALL_MS, 'EVALSHA');
