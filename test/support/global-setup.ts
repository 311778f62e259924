import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';
import { openKafka } from '../../deploy/local/kafka.mjs';
import { findRedisServer, startRedis } from '../../deploy/local/redis-server.mjs';
import { openDesk } from './desk.js';
import { LANGUAGES } from './languages.js';

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
  const { makers, stopKafka } = prepareDear({ ahead: process.env.FUSELINE_FETCH_AHEAD === '1' });
  const desk = await openDesk(makers);
  project.provide('desk', desk.url);
  return async () => {
    desk.close();
    await Promise.all([stopKafka(), redis.stop()]);
  };
}

/**
 * Brokers, and programs in other languages. Most runs need none of it, so that it is made when a test asks. A run of all tests fetches
 * and builds `ahead`, while other tests wait for something.
 */
function prepareDear({ ahead }: { ahead: boolean }) {
  const { Java, ...others } = Object.fromEntries(
    Object.entries(LANGUAGES).map(([name, prepare]) => [name, onlyOnce<unknown>(prepare)]),
  );
  const fetching = ahead ? Java!().catch(() => {}) : undefined;
  void fetching?.then(async () => {
    for (const prepare of Object.values(others)) await prepare().catch(() => {});
  });
  let opened: ReturnType<typeof openKafka> | undefined;
  const kafka = onlyOnce(async () => {
    // The broker lies where Java's packages do: nobody fetches them twice.
    await fetching;
    opened = openKafka();
    return (await opened).brokers;
  });
  const stopKafka = async () => opened?.then(({ stop }) => stop()).catch(() => {});
  return { makers: { kafka, Java: Java!, ...others }, stopKafka };
}

function onlyOnce<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make();
    return made;
  };
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
