import type { Log } from '../observe/log.js';
import { closeRedis, openRedis, type Purpose, parseRedisUrl, type RedisClient } from '../redis/client.js';
import type { Settings } from '../settings/definitions.js';

/** A Redis that this process uses, as settings name it; `address` is safe to show: hosts and ports, no path, no password. */
export type Server = { readonly url: string; readonly address: string; readonly client: RedisClient };

/** Every connection of a process, by what it is for. Whoever opens them (the process) closes them, last of all. */
export type Clients = {
  /** Channels, rules, feed. */
  readonly main: RedisClient;
  /** The outcome log: the same client where it lies on the same Redis. */
  readonly log: RedisClient;
  readonly queueProducer: RedisClient;
  readonly queueWorker: RedisClient;
  /** Each Redis once, with a client to ask it. */
  readonly servers: readonly Server[];
  /** Why a Redis cannot be used right now; `undefined` when all can. */
  trouble(): string | undefined;
  close(): Promise<void>;
};

type Urls = Pick<Settings, 'redisUrl' | 'logRedisUrl' | 'queueRedisUrl'>;

/** Opens one connection per purpose and Redis. Returns at once, also while Redis is away: each outage is logged once, and its end. */
export function openClients({ redisUrl, logRedisUrl, queueRedisUrl }: Urls, log: Log): Clients {
  const opened: RedisClient[] = [];
  const troubles = new Map<string, string>();

  function open(url: string, purpose: Purpose): RedisClient {
    const address = addressOf(url);
    const client = openRedis(url, purpose, (error) => {
      const reason = `Redis at ${address} cannot be used: ${reasonOf(error)}`;
      if (client.status !== 'ready' && troubles.get(address) !== reason) {
        troubles.set(address, reason);
        log.warn({ server: address }, reason);
      }
    });
    client.on('ready', () => {
      if (troubles.delete(address)) log.info({ server: address }, `Redis at ${address} answers`);
    });
    opened.push(client);
    return client;
  }

  const main = open(redisUrl, 'commands');
  const logClient = logRedisUrl === redisUrl ? main : open(logRedisUrl, 'commands');
  const queueProducer = open(queueRedisUrl, 'queue-producer');
  const queueWorker = open(queueRedisUrl, 'queue-worker');
  const byUrl = new Map([
    [queueRedisUrl, queueProducer],
    [logRedisUrl, logClient],
    [redisUrl, main],
  ]);
  const servers = [...byUrl].map(([url, client]) => ({ url, address: addressOf(url), client })).reverse();
  return {
    main,
    log: logClient,
    queueProducer,
    queueWorker,
    servers,
    trouble() {
      const away = servers.find(({ client }) => client.status !== 'ready');
      if (away === undefined) return undefined;
      return troubles.get(away.address) ?? `Redis at ${away.address} is not connected`;
    },
    async close() {
      await Promise.all(opened.reverse().map((client) => closeRedis(client)));
    },
  };
}

/** Hosts and ports of a Redis URL, and what kind it is; nothing secret, no path. @throws {RedisUrlError} */
export function addressOf(url: string): string {
  const target = parseRedisUrl(url);
  if (target.kind === 'cluster') return `${target.nodes.map(hostAndPort).join(',')} (cluster)`;
  const { sentinels, host, port } = target.options;
  if (target.kind === 'sentinel')
    return `${(sentinels ?? []).map((each) => hostAndPort({ host: each.host ?? '', port: each.port ?? 26379 })).join(',')} (sentinel)`;
  return hostAndPort({ host: host ?? '', port: port ?? 6379 });
}

function hostAndPort({ host, port }: { host: string; port: number }): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/** ioredis wraps refused connections, and a cluster says only that all nodes failed; the code or cause below says why. */
function reasonOf(error: Error): string {
  const { code, lastNodeError } = error as Error & { code?: string; lastNodeError?: Error };
  if (lastNodeError !== undefined && lastNodeError !== error) return reasonOf(lastNodeError);
  return error.message || code || error.name;
}
