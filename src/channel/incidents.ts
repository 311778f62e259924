import type { Transition } from '../domain/transition.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';

/** Entries kept; housekeeping also removes what is older than {@link INCIDENTS_KEPT_MS}. */
export const INCIDENTS_KEPT = 10_000;
export const INCIDENTS_KEPT_MS = 90 * 86_400_000;

/** Appends a transition to the history of incidents. Twice is possible after a crash: an entry is named by channel and epoch. */
export async function appendIncident(client: RedisClient, keys: Keys, transition: Transition): Promise<void> {
  const { channel, incident, kind, epoch } = transition;
  const fields = ['v', '1', 'channel', channel, 'incident', incident, 'kind', kind, 'epoch', String(epoch)];
  await client.xadd(
    keys.incidents,
    'MAXLEN',
    '~',
    INCIDENTS_KEPT,
    '*',
    ...fields,
    'transition',
    JSON.stringify(transition),
  );
}
