import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';
import { openKafka } from '../../deploy/local/kafka.mjs';
import { findRedisServer, startRedis } from '../../deploy/local/redis-server.mjs';

declare module 'vitest' {
  interface ProvidedContext {
    /** The one server that ordinary tests share, each under a prefix of its own. */
    redisUrl: string;
    /** Asked for the brokers that tests share: they are started when the first test asks. */
    kafkaDesk: string;
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
  const kafka = await openKafkaDesk();
  project.provide('kafkaDesk', kafka.url);
  return async () => {
    await Promise.all([kafka.close(), redis.stop()]);
  };
}

/** Most runs need no Kafka, and test files are processes of their own: so the first one that needs it asks here, others get the same. */
async function openKafkaDesk(): Promise<{ url: string; close: () => Promise<void> }> {
  let opened: ReturnType<typeof openKafka> | undefined;
  const server = createServer(async (_request, response) => {
    opened ??= openKafka();
    const answer = await opened.then(
      ({ brokers }) => ({ brokers }),
      (error: Error) => ({ error: error.message }),
    );
    response.end(JSON.stringify(answer));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.close();
      server.closeAllConnections();
      await opened?.then(({ stop }) => stop()).catch(() => {});
    },
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
