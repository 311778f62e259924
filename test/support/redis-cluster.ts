import { Redis } from 'ioredis';
import { freePort } from '../../deploy/local/redis-server.mjs';
import { type RedisServer, startRedis } from './redis.js';
import { until } from './wait.js';

const SLOTS = 16_384;
const PRIMARIES = 3;

export type ClusterNode = RedisServer & { host: string; id: string; role: 'primary' | 'replica' };

export type RedisCluster = {
  /** Three primaries, then their replicas in the same order. As they were at the start: a failover changes roles. */
  nodes: ClusterNode[];
  /** `redis-cluster://127.0.0.1:<port>,…` */
  url: string;
  stop(): Promise<void>;
};

/** Three primaries and three replicas that know each other and cover all slots. About 3 s; stopped at the end of the test. */
export async function startCluster({ nodeTimeoutMs = 2_000 }: { nodeTimeoutMs?: number } = {}): Promise<RedisCluster> {
  const servers = await Promise.all(Array.from({ length: PRIMARIES * 2 }, () => startNode(nodeTimeoutMs)));
  const clients = servers.map(({ url }) => new Redis(url));
  try {
    const nodes = await join(servers, clients);
    return {
      nodes,
      url: `redis-cluster://${nodes.map(({ host, port }) => `${host}:${port}`).join(',')}`,
      stop: async () => {
        await Promise.all(servers.map(({ stop }) => stop()));
      },
    };
  } finally {
    for (const client of clients) client.disconnect();
  }
}

async function startNode(nodeTimeoutMs: number, attempts = 5): Promise<RedisServer> {
  const args = [
    ['--cluster-enabled', 'yes'],
    ['--cluster-port', `${await freePort()}`],
    ['--cluster-node-timeout', `${nodeTimeoutMs}`],
    ['--cluster-replica-validity-factor', '0'],
    ['--repl-diskless-sync-delay', '0'],
  ];
  return startRedis({ args: args.flat() }).catch((error: Error) => {
    // Somebody else took the port of the bus between our look and the node's start.
    if (attempts > 1 && error.message.includes('Address already in use')) return startNode(nodeTimeoutMs, attempts - 1);
    throw error;
  });
}

async function join(servers: RedisServer[], clients: Redis[]): Promise<ClusterNode[]> {
  const ids = (await Promise.all(clients.map((client) => client.call('CLUSTER', 'MYID')))) as string[];
  await Promise.all(clients.map((client, i) => client.call('CLUSTER', 'SET-CONFIG-EPOCH', i + 1)));
  await Promise.all(
    clients.slice(0, PRIMARIES).map((client, i) => {
      const from = Math.floor((SLOTS * i) / PRIMARIES);
      const to = Math.floor((SLOTS * (i + 1)) / PRIMARIES) - 1;
      return client.call('CLUSTER', 'ADDSLOTSRANGE', from, to);
    }),
  );
  for (const client of clients.slice(1)) {
    const { port } = servers[0]!;
    await client.call('CLUSTER', 'MEET', '127.0.0.1', port, await busPort(clients[0]!));
  }
  await Promise.all(clients.map((client) => untilInfo(client, new RegExp(`cluster_known_nodes:${clients.length}`))));
  for (const [i, client] of clients.slice(PRIMARIES).entries()) {
    await until(() => client.call('CLUSTER', 'REPLICATE', ids[i]!), {
      what: `node ${PRIMARIES + i} to become a replica`,
    });
  }
  await Promise.all(clients.map((client) => untilInfo(client, /cluster_state:ok/)));
  await Promise.all(
    clients.slice(PRIMARIES).map((client) =>
      until(() => client.info('replication'), {
        what: 'a replica to be in step',
        accept: (info) => info.includes('master_link_status:up'),
      }),
    ),
  );
  // A node that does not yet know who replicates whom would answer CLUSTER SLOTS without replicas.
  await Promise.all(
    clients.map((client) =>
      until(() => client.call('CLUSTER', 'NODES') as Promise<string>, {
        what: 'every node to know the replicas',
        accept: (text) => (text.match(/slave /g) ?? []).length === PRIMARIES,
      }),
    ),
  );
  return servers.map((server, i) => ({
    ...server,
    host: '127.0.0.1',
    id: ids[i]!,
    role: i < PRIMARIES ? 'primary' : 'replica',
  }));
}

async function busPort(client: Redis): Promise<string> {
  const [, port] = (await client.config('GET', 'cluster-port')) as string[];
  return port!;
}

function untilInfo(client: Redis, pattern: RegExp): Promise<string> {
  return until(() => client.call('CLUSTER', 'INFO') as Promise<string>, {
    what: `CLUSTER INFO to match ${pattern}`,
    accept: (info) => pattern.test(info),
  });
}
