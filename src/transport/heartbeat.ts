import type { RedisClient } from '../redis/client.js';
import { withDeadline } from '../redis/deadline.js';
import type { Keys } from '../redis/keys.js';
import { loadScript, runScript } from '../redis/script.js';

const heartbeat = loadScript('heartbeat');
const CALL_MS = 2_000;

/** How long a heartbeat counts; ms. */
export const LIVE_MS = 8_000;
const LISTED_MS = 60_000;

/** Says that this worker lives; resolves to the number of those that do. */
export async function beat(client: RedisClient, keys: Keys, worker: string): Promise<number> {
  return Number(
    await withDeadline(runScript(client, heartbeat, [keys.workers], [worker, LIVE_MS, LISTED_MS]), CALL_MS, 'EVALSHA'),
  );
}

/** Leaves the list of the living at once, so that the others take over without waiting. */
export async function leave(client: RedisClient, keys: Keys, worker: string): Promise<void> {
  await withDeadline(client.zrem(keys.workers, worker), CALL_MS, 'ZREM');
}
