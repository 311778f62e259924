import type { RedisClient } from './client.js';

type Unrefable = { unref?: () => void };
/** Not in ioredis's types: the socket, the timer of the next attempt, and a cluster's timer of its map of slots. */
type Inner = { stream?: Unrefable; reconnectTimeout?: Unrefable | null; slotsTimer?: Unrefable | null };

/**
 * Lets the process end though this client is connected, connecting or waiting to reconnect. Where a version of ioredis keeps its
 * sockets elsewhere, the process lives until the client is closed: no outcome is lost by that.
 */
export function keepInBackground(client: RedisClient): void {
  const inner = client as unknown as Inner;
  const release = () => {
    inner.stream?.unref?.();
    inner.reconnectTimeout?.unref?.();
    inner.slotsTimer?.unref?.();
  };
  for (const event of ['connecting', 'connect', 'ready', 'reconnecting']) {
    // The socket of an attempt is made a turn after 'connecting' is told.
    client.on(event, () => {
      release();
      setImmediate(release);
    });
  }
  setImmediate(release);
  if ('nodes' in client) client.on('+node', (node: RedisClient) => keepInBackground(node));
}

/**
 * Opens a connection of our own with the settings of a caller's client (address, credentials, TLS), but as `publish` needs it. The
 * caller's own would send an append again whose answer was lost, and it would be in the log twice.
 */
export function openLike(client: RedisClient): RedisClient {
  const options = {
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    lazyConnect: false,
    keyPrefix: '',
    retryStrategy: (times: number) => Math.min(50 * 2 ** Math.min(times, 6), 1_000),
  };
  const own =
    'nodes' in client
      ? client.duplicate([], {
          enableOfflineQueue: false,
          retryDelayOnFailover: 0,
          redisOptions: { ...client.options.redisOptions, ...options },
        })
      : client.duplicate(options);
  own.on('error', () => {});
  return own;
}
