import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { Redis } from 'ioredis';
import { expect, it, onTestFinished } from 'vitest';
import { withAdmin } from '../../src/transport/kafka/client.js';
import { clockOf } from '../../src/transport/kafka/topic.js';
import { layOutImage, readCompose } from '../deploy/image.js';
import { plainKafka, startKafka } from '../support/kafka.js';
import { startProcess } from '../support/processes.js';
import { type RedisServer, startRedis } from '../support/redis.js';
import { until } from '../support/wait.js';

const { services } = readCompose();

/** Runs a health check as Docker does, within the container's environment; resolves to its exit code. */
function check(name: string, env: Record<string, string>): Promise<number> {
  expect(services[name]!.healthcheck.test.every((word) => typeof word === 'string')).toBe(true);
  const [kind, ...words] = services[name]!.healthcheck.test;
  const [command, ...args] = kind === 'CMD-SHELL' ? ['/bin/sh', '-c', words.join(' ')] : words;
  return new Promise((resolve) => {
    execFile(command!, args, { env: { PATH: process.env.PATH, ...env }, timeout: 10_000 }, (error) => {
      resolve(error === null ? 0 : typeof error.code === 'number' ? error.code : 127);
    });
  });
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function startRedisOfCompose(): Promise<RedisServer> {
  const dir = mkdtempSync(join(tmpdir(), 'fuseline-data-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const [program, ...args] = String(services.redis!.command).split(' ');
  expect(program).toBe('redis-server');
  return startRedis({ args, dir });
}

it.each(['outcomes', 'recovery', 'alerts'])(
  'the health check of %s passes while the worker works, and fails otherwise',
  async (name) => {
    const redis = await startRedisOfCompose();
    const image = layOutImage();
    onTestFinished(() => rmSync(image, { recursive: true, force: true }));
    const { command, environment } = services[name]!;
    const env = { ...environment, FUSELINE_REDIS_URL: redis.url, FUSELINE_HTTP_PORT: String(await freePort()) };
    expect(await check(name, env), 'nothing runs yet').toBe(1);

    const worker = startProcess(join(image, command[1]!), [], env);
    const healthy = async () => (await check(name, env)) === 0 || { said: worker.lines.slice(-5) };
    await until(healthy, { what: `${name} to be healthy`, timeoutMs: 20_000, accept: (value) => value === true });
    await redis.stop();
    await until(async () => (await check(name, env)) === 1, { what: 'Redis to be missed', timeoutMs: 10_000 });
    worker.kill('SIGKILL');
    await worker.exited;
    expect(await check(name, env), 'it has ended').toBe(1);
  },
  60_000,
);

it('starts a Redis that never evicts and keeps what it holds, and whose health check passes while it answers', async () => {
  const redis = await startRedisOfCompose();
  const client = new Redis(redis.url);
  onTestFinished(() => client.disconnect());
  const settings = await client.config('GET', 'maxmemory*', 'appendonly');
  expect(settings).toEqual(expect.arrayContaining(['noeviction', 'yes']));

  // The check speaks to port 6379, as in the container; here the server has another one.
  const cli = join(dirname(process.env.FUSELINE_REDIS_SERVER!), 'redis-cli');
  const bin = mkdtempSync(join(tmpdir(), 'fuseline-bin-'));
  onTestFinished(() => rmSync(bin, { recursive: true, force: true }));
  writeFileSync(join(bin, 'redis-cli'), `#!/bin/sh\nexec "${cli}" -p ${redis.port} "$@"\n`, { mode: 0o755 });
  const env = { PATH: `${bin}${delimiter}${process.env.PATH}` };
  expect(await check('redis', env)).toBe(0);
  await redis.stop();
  expect(await check('redis', env)).toBe(1);
});

it('starts a Kafka that makes no topic by itself, in which the command of the first lines makes one with the log’s clock', async () => {
  // As the image does it: KAFKA_NODE_ID is node.id. Where it listens and keeps its data is another matter here.
  const here =
    /^(node\.id|controller\.quorum\.voters|listeners|advertised\.listeners|log\.dirs|.*\.listener\.name.*|listener\..*)$/;
  const named = Object.entries(services.kafka!.environment!).map(([name, value]) => [
    name
      .replace(/^KAFKA_/, '')
      .toLowerCase()
      .replaceAll('_', '.'),
    value,
  ]);
  const properties = Object.fromEntries(named.filter(([name]) => !here.test(name!)));
  expect(properties['auto.create.topics.enable']).toBe('false');
  const broker = await startKafka({ properties });
  const kafka = plainKafka(broker.brokers);
  const producer = kafka.producer({ retry: { retries: 0 } });
  await producer.connect();
  onTestFinished(() => producer.disconnect());
  const send = () => producer.send({ topic: 'fuseline.outcomes', messages: [{ value: '{}' }] });
  await expect(send()).rejects.toThrow();

  const head = readFileSync('docker-compose.yml', 'utf8');
  const [, words] = /run --build --rm outcomes fuseline (kafka .*)$/m.exec(head)!;
  const image = layOutImage();
  onTestFinished(() => rmSync(image, { recursive: true, force: true }));
  const env = { FUSELINE_KAFKA_BROKERS: broker.brokers };
  const made = startProcess(join(image, 'dist/src/cli/main.js'), words!.split(' '), env);
  expect((await made.exited).code, made.lines.join('\n')).toBe(0);
  const clock = await withAdmin({ brokers: [broker.brokers] }, (admin) => clockOf(admin, 'fuseline.outcomes'));
  expect(clock).toBe('LogAppendTime');
}, 90_000);
