import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';
import { findRedisServer, startRedis } from '../../deploy/local/redis-server.mjs';

declare module 'vitest' {
  interface ProvidedContext {
    /** The one server that ordinary tests share, each under a prefix of its own. */
    redisUrl: string;
  }
}

const checkout = fileURLToPath(new URL('../..', import.meta.url));

/** Runs once, before all test files: builds `dist`, which tests of processes run, and starts the shared Redis. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  if (process.env.FUSELINE_SKIP_BUILD !== '1') await build();
  // Test files inherit this, so that none of them searches again.
  process.env.FUSELINE_REDIS_SERVER = (await findRedisServer()).command;
  const redis = await startRedis();
  project.provide('redisUrl', redis.url);
  return redis.stop;
}

async function build(): Promise<void> {
  const child = spawn(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.json'], {
    cwd: checkout,
    stdio: 'inherit',
  });
  const [code] = await once(child, 'exit');
  // 2: built, with type errors, which `npm run check` refuses. They need not keep one from running a test while working.
  if (code === 2) process.stderr.write('built with type errors\n');
  else if (code !== 0) throw new Error(`the build ended with code ${code}`);
}
