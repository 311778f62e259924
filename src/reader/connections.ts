import type { Cluster, Redis } from 'ioredis';
import { closeRedis, openRedis, type RedisClient, whenReady } from '../redis/client.js';
import { withDeadline } from '../redis/deadline.js';

/** The two connections of a reader: blocking reads delay everything else on theirs. */
export type Connections = {
  readonly commands: RedisClient;
  readonly feed: RedisClient;
  /** Whether `commands` was opened here: a caller's client is neither closed nor made to reconnect. */
  readonly own: boolean;
  close(): Promise<void>;
};

/**
 * Opens both from a URL, or takes the caller's client for commands and a duplicate of it for the feed.
 *
 * @throws {RedisUrlError} the URL; {Error} neither a URL nor a client was given
 */
export function openConnections({ url, client }: { url?: string; client?: RedisClient }): Connections {
  if (client !== undefined) {
    const feed = duplicate(client);
    return { commands: client, feed, own: false, close: async () => feed.disconnect() };
  }
  if (url === undefined) throw new Error('a reader needs a Redis: give it `url`, or a `client` of yours');
  const commands = openRedis(url, 'commands');
  const feed = openRedis(url, 'blocking');
  const close = async () => {
    feed.disconnect();
    await closeRedis(commands);
  };
  return { commands, feed, own: true, close };
}

/**
 * Resolves once commands can be sent.
 *
 * @throws {DeadlineError} not within `ms`; on the signal, its reason
 */
export async function readyWithin(client: RedisClient, ms: number, signal: AbortSignal): Promise<void> {
  if (client.status === 'ready') return;
  const giveUp = new AbortController();
  try {
    await withDeadline(whenReady(client, AbortSignal.any([signal, giveUp.signal])), ms, 'the greeting of Redis');
  } finally {
    giveUp.abort();
  }
}

/** As `openRedis` makes a blocking connection, whatever the caller chose for commands. A cluster's client keeps its own settings. */
function duplicate(client: RedisClient): RedisClient {
  const settings = { enableOfflineQueue: false, maxRetriesPerRequest: 0, lazyConnect: false };
  // The two kinds share the method's name, not its arguments; a cluster takes none here.
  const feed = client.isCluster ? (client as Cluster).duplicate() : (client as Redis).duplicate(settings);
  feed.on('error', () => {});
  if (feed.status === 'wait') void feed.connect().catch(() => {});
  return feed as RedisClient;
}
