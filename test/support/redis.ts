import { randomBytes } from 'node:crypto';
import { inject } from 'vitest';
import { startRedis as start } from '../../deploy/local/redis-server.mjs';
import { releaseAtEnd } from './releasers.js';

/** `url` is `redis://127.0.0.1:<port>`; `pid` is for signals; `stop` may be called twice. */
export type RedisServer = Awaited<ReturnType<typeof start>>;

export type RedisServerOptions = {
  port?: number;
  /** Later ones win: `['--maxmemory', '2mb']`, `['--appendonly', 'yes']`. */
  args?: string[];
  /** A folder that outlives the server, for a restart with its data; default: a temporary one. */
  dir?: string;
  configFile?: string;
};

/** The server that all test files share. Stay under {@link uniquePrefix}, never flush, stop or configure it. */
export function sharedRedisUrl(): string {
  return inject('redisUrl');
}

/** Goes before every key of one test, so that test files run side by side on one server. */
export function uniquePrefix(): string {
  return `test-${randomBytes(6).toString('hex')}:`;
}

/** A server of the test's own, to be frozen, filled or killed. Keeps nothing on disk by default; stopped at the end of the test. */
export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const server = await start(options);
  releaseAtEnd(server.stop);
  return server;
}
