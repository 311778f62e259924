import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { loadScript, runScript } from '../redis/script.js';

const markScript = loadScript('mark');
const rescheduleScript = loadScript('reschedule');

/** A channel that must be looked at, and the score under which it stood: whoever reschedules shows it again. */
export type DueChannel = { readonly channel: string; readonly score: string };

/** Puts channels on the agenda, due at once. Resolves to their scores, in order. */
export async function mark(client: RedisClient, keys: Keys, channels: readonly string[]): Promise<string[]> {
  if (channels.length === 0) return [];
  const reply = await runScript(client, markScript, [keys.agenda], channels);
  return (reply as (string | number)[]).map(String);
}

/**
 * Sets a channel's next time (Redis ms; 0 takes it off), unless somebody touched it since `score` was read.
 *
 * @returns false when somebody did: the channel stays due
 */
export async function reschedule(
  client: RedisClient,
  keys: Keys,
  channel: string,
  score: string,
  at: number,
): Promise<boolean> {
  return (await runScript(client, rescheduleScript, [keys.agenda], [channel, score, at])) === 1;
}

/** Every channel that is due by Redis time, longest due first. Reads, never pops: a watcher that dies loses nobody. */
export async function dueChannels(client: RedisClient, keys: Keys, most: number): Promise<DueChannel[]> {
  const [seconds] = await client.time();
  const reply = await client.zrangebyscore(
    keys.agenda,
    '-inf',
    Number(seconds) * 1000 + 999,
    'WITHSCORES',
    'LIMIT',
    0,
    most,
  );
  const due: DueChannel[] = [];
  for (let i = 0; i + 1 < reply.length; i += 2) due.push({ channel: reply[i]!, score: plain(reply[i + 1]!) });
  return due;
}

/** Redis prints large scores as 1.7e+15 in places; the scripts compare plain digits. */
function plain(score: string): string {
  return Number(score).toFixed(0);
}
