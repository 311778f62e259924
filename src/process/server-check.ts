import type { Redis } from 'ioredis';
import { type RedisClient, whenReady } from '../redis/client.js';
import { withDeadline } from '../redis/deadline.js';
import type { Server } from './clients.js';

/** Scripts need `#!lua` flags, the feed needs `entries-added`, the block key `PEXPIRETIME`: all of them came with 7.0. */
const LEAST_VERSION = [7, 0] as const;
const CALL_MS = 5_000;

/** This Redis cannot be used, however long one waits. */
export class RefusedServer extends Error {
  override readonly name = 'RefusedServer';
}

/**
 * Waits until a Redis answers, then looks whether it will do. Resolves to sentences to warn about.
 *
 * @throws {RefusedServer} older than 7.0; on the signal, its reason
 */
export async function checkServer({ client, address }: Server, signal: AbortSignal): Promise<string[]> {
  await whenReady(client, signal);
  const warnings: string[] = [];
  for (const node of nodesOf(client)) {
    const about = await ask(() => node.info());
    if (about === undefined) {
      warnings.push(
        `the version of Redis at ${address} could not be checked (INFO was refused): 7.0 or later is needed`,
      );
    } else {
      refuseOld(about, address);
    }
    const policy = field(about ?? '', 'maxmemory_policy') ?? (await configured(node));
    if (policy === undefined) {
      warnings.push(
        `the maxmemory-policy of Redis at ${address} could not be checked (INFO and CONFIG tell nothing): it must be noeviction, or Redis may evict blocks and jobs`,
      );
    } else if (policy !== 'noeviction') {
      warnings.push(
        `the maxmemory-policy of Redis at ${address} is ${policy}: it must be noeviction, or Redis may evict blocks and jobs`,
      );
    }
  }
  return [...new Set(warnings)];
}

/** @throws {RefusedServer} the `INFO` text tells a version before 7.0 */
export function refuseOld(info: string, address: string): void {
  // Valkey tells the version of Redis that it stands for as redis_version, and its own beside it.
  const version = field(info, 'redis_version');
  if (version === undefined) return;
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > LEAST_VERSION[0] || (major === LEAST_VERSION[0] && minor >= LEAST_VERSION[1])) return;
  throw new RefusedServer(`Redis at ${address} is version ${version}: 7.0 or later is needed, or Valkey`);
}

function nodesOf(client: RedisClient): readonly Redis[] {
  return 'nodes' in client ? client.nodes('master') : [client];
}

async function configured(node: Redis): Promise<string | undefined> {
  const reply = (await ask(() => node.config('GET', 'maxmemory-policy'))) as string[] | undefined;
  return reply?.[1];
}

/** What was refused (ACL, a managed Redis), or not answered, is simply not known. */
async function ask<T>(call: () => Promise<T>): Promise<T | undefined> {
  try {
    return await withDeadline(call(), CALL_MS, 'a question about the server');
  } catch {
    return undefined;
  }
}

function field(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1];
}
