import type { Cluster } from 'ioredis';
import type { RedisClient } from './client.js';
import { withDeadline } from './deadline.js';

const CALL_MS = 2_000;

/**
 * The replication ids of the primaries behind these clients (the first 12 characters of each). A promoted replica has an id of its
 * own, so an id never seen before means that something acknowledged may be gone. Primaries that do not answer are left out.
 *
 * @throws {Error} nobody answers
 */
export async function serverIds(clients: readonly RedisClient[]): Promise<string[]> {
  const nodes = clients.flatMap((client) => ('nodes' in client ? client.nodes('master') : [client]));
  const answers = await Promise.allSettled(
    nodes.map(async (node) => withDeadline(node.info('replication'), CALL_MS, 'INFO replication')),
  );
  const ids = answers.flatMap((answer) => (answer.status === 'fulfilled' ? replicationId(answer.value) : []));
  const failed = answers.find((answer) => answer.status === 'rejected');
  if (ids.length === 0 && failed) throw failed.reason;
  return [...new Set(ids)];
}

/** Whether one of `now` was not known before. Nothing known yet is no failover. */
export function isFailover(known: readonly string[], now: readonly string[]): boolean {
  return known.length > 0 && now.some((id) => !known.includes(id));
}

/**
 * Calls `act` whenever another server may answer from now on: one of these clients has a new connection, or a cluster other primaries. No
 * call goes there before, since those that waited for an answer fail with the old connection.
 *
 * @returns ends it
 */
export function onOtherServer(clients: readonly RedisClient[], act: () => void): () => void {
  const ends = clients.map((client) => {
    if ('nodes' in client) return watchCluster(client, act);
    client.on('ready', act);
    return () => void client.off('ready', act);
  });
  return () => {
    for (const end of ends) end();
  };
}

function watchCluster(client: Cluster, act: () => void): () => void {
  const primaries = () =>
    client
      .nodes('master')
      .map(({ options: { host, port } }) => `${host}:${port}`)
      .sort()
      .join();
  let known = primaries();
  const look = () => {
    const now = primaries();
    if (now !== known) act();
    known = now;
  };
  client.on('-node', look).on('refresh', look);
  return () => void client.off('-node', look).off('refresh', look);
}

function replicationId(info: string): string[] {
  const id = /^master_replid:(\S{12})/m.exec(info)?.[1];
  return id === undefined ? [] : [id];
}
