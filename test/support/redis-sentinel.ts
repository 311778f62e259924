import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { type RedisServer, startRedis } from './redis.js';
import { releaseAtEnd } from './releasers.js';
import { until } from './wait.js';

const NAME = 'fuseline-primary';
const QUORUM = 2;

export type RedisSentinel = {
  /** `redis-sentinel://127.0.0.1:<port>,…/<name>` */
  url: string;
  /** For `new Redis({ sentinels, name })`. */
  sentinels: Array<{ host: string; port: number }>;
  name: string;
  /** The two data servers; which of them is the primary changes. */
  servers: RedisServer[];
  /** The server that most sentinels hold for the primary now. */
  primary(): Promise<RedisServer>;
  /** Kills the primary (SIGKILL) and waits until the sentinels have made the other one primary, which it resolves to. */
  killPrimary(): Promise<RedisServer>;
  stop(): Promise<void>;
};

/** A primary, a replica in step and three sentinels that know both; down after 1 s. Stopped at the end of the test. */
export async function startSentinel(): Promise<RedisSentinel> {
  const first = await startRedis({ args: ['--repl-diskless-sync-delay', '0'] });
  const second = await startRedis({
    args: ['--repl-diskless-sync-delay', '0', '--replicaof', '127.0.0.1', `${first.port}`],
  });
  const servers = [first, second];
  await ask(second, (client) =>
    until(() => client.info('replication'), {
      what: 'the replica to be in step',
      accept: (info) => info.includes('master_link_status:up'),
    }),
  );
  const watchers = await Promise.all(Array.from({ length: 3 }, () => startWatcher(first.port)));
  await Promise.all(watchers.map(untilItKnowsAll));

  async function primary(): Promise<RedisServer> {
    const told = await Promise.all(watchers.map(addressOfPrimary));
    const server = servers.find(({ port }) => told.filter((each) => each === port).length >= QUORUM);
    if (!server) throw new Error(`the sentinels do not agree on a primary: ${told.join(', ')}`);
    return server;
  }

  async function killPrimary(): Promise<RedisServer> {
    const old = await primary();
    const next = servers.find((server) => server !== old)!;
    process.kill(old.pid, 'SIGKILL');
    await until(primary, {
      what: 'the sentinels to agree on a new primary',
      accept: (now) => now === next,
      timeoutMs: 20_000,
    });
    await ask(next, (client) =>
      until(() => client.role(), { what: 'the new primary to take writes', accept: ([role]) => role === 'master' }),
    );
    return next;
  }

  const sentinels = watchers.map(({ port }) => ({ host: '127.0.0.1', port }));
  return {
    url: `redis-sentinel://${sentinels.map(({ host, port }) => `${host}:${port}`).join(',')}/${NAME}`,
    sentinels,
    name: NAME,
    servers,
    primary,
    killPrimary,
    stop: async () => {
      await Promise.all([...watchers, ...servers].map(({ stop }) => stop()));
    },
  };
}

/** A sentinel writes what it learns into its configuration, so each has a folder of its own. */
async function startWatcher(primaryPort: number): Promise<RedisServer> {
  const dir = await mkdtemp(join(tmpdir(), 'fuseline-sentinel-'));
  releaseAtEnd(() => rm(dir, { recursive: true, force: true }));
  const configFile = join(dir, 'sentinel.conf');
  const lines = [
    `sentinel monitor ${NAME} 127.0.0.1 ${primaryPort} ${QUORUM}`,
    `sentinel down-after-milliseconds ${NAME} 1000`,
    `sentinel failover-timeout ${NAME} 5000`,
    `sentinel parallel-syncs ${NAME} 1`,
    '',
  ];
  await writeFile(configFile, lines.join('\n'));
  return startRedis({ args: ['--sentinel'], dir, configFile });
}

function untilItKnowsAll(watcher: RedisServer): Promise<unknown> {
  return ask(watcher, (client) =>
    until(() => client.call('SENTINEL', 'MASTER', NAME) as Promise<string[]>, {
      what: 'a sentinel to know the replica and the other sentinels',
      accept: (fields) => field(fields, 'num-slaves') === '1' && field(fields, 'num-other-sentinels') === '2',
      timeoutMs: 20_000,
    }),
  );
}

function addressOfPrimary(watcher: RedisServer): Promise<number> {
  return ask(watcher, async (client) => {
    const [, port] = (await client.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', NAME)) as string[];
    return Number(port);
  });
}

function field(fields: string[], name: string): string | undefined {
  return fields[fields.indexOf(name) + 1];
}

async function ask<T>(server: RedisServer, question: (client: Redis) => Promise<T>): Promise<T> {
  const client = new Redis(server.url);
  try {
    return await question(client);
  } finally {
    client.disconnect();
  }
}
