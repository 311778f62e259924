import { Cluster, type ClusterOptions, Redis, type RedisOptions } from 'ioredis';
import { withDeadline } from './deadline.js';
import { restoreStringMethods } from './string-methods.js';

// At import, as what it makes good: services that load this package must not be slowed down by it.
restoreStringMethods();

export type RedisClient = Redis | Cluster;

/**
 * What a connection is for decides how it behaves when Redis is away.
 *
 * - `commands`: scripts and reads. Fails at once while disconnected, so that callers back off, and never resends what a lost connection
 *   left unanswered: after a failover it would reach another server, which may lack what came before, and its fence would hide that. (In a
 *   cluster a call is still repeated: it has no other way to wait for a node.)
 * - `blocking`: `XREAD BLOCK`. On its own connection, because it delays everything else.
 * - `publish`: appends to the log. Never resends: an XADD whose answer was lost would be appended twice.
 * - `queue-producer`, `queue-worker`: as BullMQ demands them.
 */
export type Purpose = 'commands' | 'blocking' | 'publish' | 'queue-producer' | 'queue-worker';

/**
 * Opens a client from a URL. The caller closes it. An `error` listener is always attached (an outage is told by the calls).
 *
 * - `redis://[user:password@]host:port[/db]`, `rediss://…` for TLS
 * - `redis-cluster://[user:password@]host:port,host:port` (`rediss-cluster://`)
 * - `redis-sentinel://[user:password@]host:port,host:port/<master name>[/db]` (`rediss-sentinel://`)
 *
 * @throws {RedisUrlError} the URL is none of these; the message never shows a password
 */
export function openRedis(url: string, purpose: Purpose, onError: (error: Error) => void = () => {}): RedisClient {
  const target = parseRedisUrl(url);
  const options = { ...target.options, ...purposeOptions(purpose) };
  const client = target.kind === 'cluster' ? openCluster(target.nodes, options) : new Redis(options);
  client.on('error', (error: Error & { command?: { name?: string } }) => {
    // What is still sent on a connection that ended fails too: an echo, which would hide the reason.
    if (!error.message.startsWith("Stream isn't writeable")) onError(error);
    // ioredis goes on in database 0 where that of the URL is refused (no such number, a cluster): we would work on somebody else's keys.
    if (error.command?.name === 'select') client.disconnect(true);
  });
  return client;
}

export class RedisUrlError extends Error {
  override readonly name = 'RedisUrlError';
}

type Node = { host: string; port: number };
type Target =
  | { kind: 'single' | 'sentinel'; options: RedisOptions }
  | { kind: 'cluster'; nodes: Node[]; options: RedisOptions };

const SHAPE = /^(rediss?)(?:-(cluster|sentinel))?:\/\/(?:([^@]*)@)?([^/?@]+)((?:\/[^/?]*)*)\/?$/;

/** Splits a URL into what ioredis wants; exported for `config show` and for tests. */
export function parseRedisUrl(url: string): Target {
  const match = SHAPE.exec(url);
  if (!match)
    throw new RedisUrlError(
      `not a Redis URL: ${maskUrl(url)} (want redis://host:port, redis-cluster://host:port,… or redis-sentinel://host:port,…/<master>; in a password @ is written %40)`,
    );
  const [, scheme, topology, userInfo, hosts, path] = match;
  const nodes = hosts!.split(',').map((host) => parseNode(host, topology === 'sentinel' ? 26379 : 6379, url));
  const parts = path!.split('/').filter(Boolean);
  const options: RedisOptions = { ...credentials(userInfo), ...(scheme === 'rediss' ? { tls: {} } : {}) };
  if (topology === 'cluster') {
    if (parts.length > 0) throw new RedisUrlError(`a cluster has no databases: ${maskUrl(url)}`);
    return { kind: 'cluster', nodes, options };
  }
  if (topology === 'sentinel') {
    const [name, db] = parts;
    if (name === undefined) throw new RedisUrlError(`a sentinel URL ends with the master's name: ${maskUrl(url)}`);
    const sentinelTls = scheme === 'rediss' ? { enableTLSForSentinelMode: true } : {};
    return { kind: 'sentinel', options: { ...options, ...sentinelTls, sentinels: nodes, name, db: database(db, url) } };
  }
  if (nodes.length > 1)
    throw new RedisUrlError(`several hosts need redis-cluster:// or redis-sentinel://, got ${maskUrl(url)}`);
  return { kind: 'single', options: { ...options, ...nodes[0]!, db: database(parts[0], url) } };
}

/** A URL that is safe to print: the password replaced, path kept. Of a password that holds an unencoded `@` nothing is left either. */
export function maskUrl(url: string): string {
  return url.replace(/\/\/([^:@/]*)(?::.*|@.*)@/, '//$1:***@');
}

function parseNode(text: string, defaultPort: number, url: string): Node {
  const match = /^(\[[0-9a-fA-F:]+\]|[^:[\]]+)(?::(\d{1,5}))?$/.exec(text);
  const port = match?.[2] === undefined ? defaultPort : Number(match[2]);
  if (!match || port < 1 || port > 65_535)
    throw new RedisUrlError(`not host:port: ${JSON.stringify(text)} in ${maskUrl(url)}`);
  return { host: match[1]!.replace(/^\[|\]$/g, ''), port };
}

function credentials(userInfo: string | undefined): RedisOptions {
  if (!userInfo) return {};
  const [username, ...rest] = userInfo.split(':');
  const password = rest.join(':');
  return {
    ...(username ? { username: decodeURIComponent(username) } : {}),
    ...(password ? { password: decodeURIComponent(password) } : {}),
  };
}

function database(text: string | undefined, url: string): number {
  if (text === undefined) return 0;
  if (!/^\d{1,4}$/.test(text))
    throw new RedisUrlError(`a database is a number, got ${JSON.stringify(text)} in ${maskUrl(url)}`);
  return Number(text);
}

function purposeOptions(purpose: Purpose): RedisOptions {
  const retryStrategy = (times: number) => Math.min(50 * 2 ** Math.min(times, 6), 1_000);
  // READONLY contained, not equal: after a failover the old primary refuses inside scripts too, and a reconnect finds the new one.
  const reconnectOnError = (error: Error): boolean | 1 | 2 => (error.message.includes('READONLY') ? 1 : false);
  const common: RedisOptions = { retryStrategy, reconnectOnError, connectTimeout: 5_000, disconnectTimeout: 500 };
  switch (purpose) {
    case 'commands':
    case 'blocking':
      return { ...common, enableOfflineQueue: false, maxRetriesPerRequest: 0 };
    case 'publish':
      return { ...common, enableOfflineQueue: false, maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false };
    case 'queue-producer':
      return { ...common, enableOfflineQueue: false, maxRetriesPerRequest: 1 };
    case 'queue-worker':
      return { ...common, maxRetriesPerRequest: null };
  }
}

function openCluster(nodes: Node[], options: RedisOptions): Cluster {
  const { retryStrategy: _perNode, enableOfflineQueue, ...redisOptions } = options;
  const clusterOptions: ClusterOptions = {
    redisOptions,
    enableOfflineQueue: enableOfflineQueue ?? true,
    clusterRetryStrategy: (times) => Math.min(50 * 2 ** Math.min(times, 6), 1_000),
    // Otherwise a cluster sends a command again whose answer was lost with the connection, whatever the node's own options say.
    ...(options.autoResendUnfulfilledCommands === false ? { retryDelayOnFailover: 0 } : {}),
    slotsRefreshTimeout: 2_000,
    slotsRefreshInterval: 5_000,
  };
  return new Cluster(nodes, clusterOptions);
}

/** Resolves once commands can be sent. Rejects on the signal only: a Redis that is away at start is waited for. */
export async function whenReady(client: RedisClient, signal?: AbortSignal): Promise<void> {
  if (client.status === 'ready') return;
  await new Promise<void>((resolve, reject) => {
    const settle = (act: () => void) => () => {
      client.off('ready', onReady);
      signal?.removeEventListener('abort', onAbort);
      act();
    };
    const onReady = settle(resolve);
    const onAbort = settle(() => reject(signal?.reason ?? new Error('aborted')));
    client.on('ready', onReady);
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/** Closes for good without waiting for a server that may be gone. */
export async function closeRedis(client: RedisClient, withinMs = 1_000): Promise<void> {
  if (client.status === 'end') return;
  if (client.status === 'ready') {
    // The deadline's timer keeps the process alive: a connection in the background does not, and whoever waits here would never go on.
    await withDeadline(client.quit(), withinMs, 'QUIT').catch(() => {});
  }
  client.disconnect();
}
