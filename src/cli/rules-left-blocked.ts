import { findBlocked, readAgenda } from '../channel/snapshot.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { answered } from './redis.js';
import { rulesInForce } from './rules-in-force.js';

/**
 * Channels that the rules in force do not judge (mode `off`), and whose block key is still there: readers show them, programs that know only
 * `EXISTS` keep out until it goes. @throws {CliError} Redis does not answer
 */
export async function leftBlocked({ client, keys }: { client: RedisClient; keys: Keys }): Promise<string[]> {
  const [rules, agenda] = await Promise.all([
    rulesInForce(client, keys),
    answered(readAgenda(client, keys), 'the agenda'),
  ]);
  const off = [...new Set([...agenda, ...rules.namedChannels()])].filter(
    (channel) => rules.policyFor(channel).mode === 'off',
  );
  return off.length === 0 ? [] : answered(findBlocked(client, keys, off), 'the block keys');
}
