import type { RedisClient } from '../../redis/client.js';
import { withDeadline } from '../../redis/deadline.js';
import type { Keys } from '../../redis/keys.js';
import type { DeadLetter } from '../port.js';
import { CALL_MS } from './options.js';

/** Newest dead letters that are kept; each holds 16,384 characters of raw text at most. */
export const DEAD_LETTERS_MAX = 10_000;

/**
 * Appends to `fuseline:dead`. A batch that is read again appends again: partition, position and index tell that it is the same.
 *
 * @throws what Redis answers, or no answer within 2 s: the caller must not go on as if it had been kept
 */
export async function appendDeadLetter(client: RedisClient, keys: Keys, letter: DeadLetter): Promise<void> {
  const { reason, partition, position, index, raw } = letter;
  const fields = { v: 1, reason: reason.slice(0, 2_000), partition, position, index, raw };
  const cap = ['MAXLEN', '~', DEAD_LETTERS_MAX] as const;
  await withDeadline(
    client.xadd(keys.dead, ...cap, '*', ...Object.entries(fields).flat()),
    CALL_MS,
    'XADD of a dead letter',
  );
}
