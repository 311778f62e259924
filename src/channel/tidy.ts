import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { loadScript, runScript } from '../redis/script.js';

const tidyScript = loadScript('tidy');

/** Most calls that {@link tidyLog} can be asked to remove: Lua hands so many to a command at one go. */
export const TIDIED_MOST = 1_000;

/**
 * Removes calls of a channel's log that lie longer ago than its span and `freshForMs` together, by the clock of Redis. No verdict to come
 * depends on them: the oldest outcome that is still judged is `freshForMs` old. Resolves to how many are gone.
 *
 * @param most calls to remove, {@link TIDIED_MOST} at most
 * @throws what Redis answers
 */
export async function tidyLog(
  client: RedisClient,
  keys: Keys,
  channel: string,
  { spanMs, freshForMs, most }: { readonly spanMs: number; readonly freshForMs: number; readonly most: number },
): Promise<number> {
  const [, , , , , , slots, calls] = keys.channel(channel);
  const args = [spanMs, freshForMs, Math.min(most, TIDIED_MOST)];
  return Number(await runScript(client, tidyScript, [slots, calls], args));
}
