import { type AnnouncerOptions, createAnnouncer } from '../announce.js';
import { mark } from '../channel/agenda.js';
import { type Overridden, type Override, override } from '../channel/override.js';
import { show } from '../domain/channel-name.js';
import { silent } from '../observe/log.js';
import { uncounted } from '../observe/metrics.js';
import { openQueues } from '../queue/queues.js';
import type { RedisClient } from '../redis/client.js';
import { Keys } from '../redis/keys.js';
import type { Settings } from '../settings/definitions.js';
import { reasonOf } from './failure.js';
import { note } from './output.js';
import { answered, withConnections } from './redis.js';
import { rulesInForce } from './rules-in-force.js';

/**
 * Changes a channel by hand, tells everybody, and resolves to what Redis confirmed. A queue that is away keeps nobody from blocking a
 * channel: the outbox holds what could not be told, and a sweep tells it.
 *
 * @throws {CliError} Redis did not confirm the change
 */
export function changeByHand(settings: Settings, channel: string, hand: Override): Promise<Overridden> {
  const keys = new Keys(settings.prefix);
  return withConnections(async ({ open, openAnyway }) => {
    const queueClient = openAnyway(settings.queueRedisUrl, 'queue-producer', 2_000);
    const client = await open(settings.redisUrl, 'commands');
    const rules = await rulesInForce(client, keys);
    const policy = rules.policyFor(channel);
    if (rules.refused !== undefined)
      note(`fuseline: warning: the rules are refused (${rules.refused}): the defaults are used`);
    if (policy.mode === 'off' && hand.action === 'block')
      note(`fuseline: warning: the mode of ${show(channel)} is off: readers do not keep it out`);

    // On the agenda first: if this process dies after the change, a sweep still tells everybody.
    const [score] = await answered(mark(client, keys, [channel]), 'the mark on the agenda (nothing was changed)');
    const changing = override(client, keys, channel, policy, settings.freshFor, hand);
    const result = await answered(
      changing,
      `to ${hand.action} ${show(channel)} (fuseline status tells whether it did)`,
    );
    const untold = await tell({ client, keys, queueClient: (await queueClient).client }, channel, score!, result);
    if (untold !== undefined)
      note(`fuseline: warning: not everybody could be told yet (${untold}); a recovery worker will do it`);
    return result;
  });
}

type Told = { readonly client: RedisClient; readonly keys: Keys; readonly queueClient: RedisClient };

/** Why not everybody could be told, if so. */
async function tell(
  { client, keys, queueClient }: Told,
  channel: string,
  score: string,
  result: Overridden,
): Promise<string | undefined> {
  const queues = openQueues({ client: queueClient, prefix: keys.queues });
  let why: string | undefined;
  const log: AnnouncerOptions['log'] = {
    ...silent,
    warn: (facts: unknown) => {
      why = reasonOf((facts as { err?: unknown }).err);
    },
    // Done and told, and yet something is wrong that needs a person.
    error: (_facts: unknown, message?: string) => note(`fuseline: warning: ${message}`),
  };
  try {
    await createAnnouncer({ client, keys, queues, log, count: uncounted }).announce(channel, score, result);
    return result.outbox.length > 0 ? why : undefined;
  } finally {
    await queues.close();
  }
}
