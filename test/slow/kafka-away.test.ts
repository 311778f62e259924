import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { freePort } from '../../deploy/local/redis-server.mjs';
import { StallWatch } from '../../src/process/health.js';
import { judgesOf, pattern, text } from '../kafka/judge.js';
import { type KafkaLog, openKafkaLog } from '../kafka/kafka-log.js';
import { FETCH, type KafkaProxy, startKafkaProxy } from '../kafka/kafka-proxy.js';
import { workerEnv } from '../kafka/worker-env.js';
import { get, metric, startWorker, untilReady, type Worker } from '../process/workers.js';
import { type KafkaBroker, startKafka } from '../support/kafka.js';
import { releaseAtEnd } from '../support/releasers.js';
import { until } from '../support/wait.js';
import { queued } from '../transport/conformance.js';

/** One broker for all of them, behind a proxy, with data that outlives it. */
let broker: KafkaBroker;
let proxy: KafkaProxy;
let start: () => Promise<KafkaBroker>;

beforeAll(async () => {
  const dir = await mkdtemp(join(tmpdir(), 'fuseline-kafka-test-'));
  releaseAtEnd(() => rm(dir, { recursive: true, force: true }));
  const port = await freePort();
  proxy = await startKafkaProxy({ port });
  const properties = { 'advertised.listeners': `PLAINTEXT://127.0.0.1:${proxy.port}` };
  start = () => startKafka({ dir, port, properties });
  broker = await start();
}, 120_000);

async function open(partitions: number): Promise<KafkaLog> {
  const log = await openKafkaLog(`127.0.0.1:${proxy.port}`, { partitions });
  releaseAtEnd(log.close);
  return log;
}

async function send(log: KafkaLog, from: number, to: number): Promise<void> {
  const writer = log.writer({});
  for (const success of pattern(from, to))
    expect(await writer.send([queued({ channel: 'A', success })])).toMatchObject({ sent: 1 });
}

const readyz = (worker: Worker, status: number, text = '') =>
  until(() => get(worker, '/readyz'), {
    what: `/readyz to answer ${status} ${text}`,
    accept: (answer) => answer.status === status && answer.body.includes(text),
    timeoutMs: 30_000,
  });

it('a consumer that is connected, and to which entries wait, but that reads none is stuck for whoever looks, and is replaced', async () => {
  const log = await open(1);
  const judges = await judgesOf(log);
  const stallMs = 2_000;
  const judge = judges.start({ stallMs, sessionMs: 6_000 });
  await send(log, 0, 5);
  await judges.untilWindows(['A'], pattern(0, 5), [judge]);
  releaseAtEnd(async () => proxy.heal());
  proxy.swallow(FETCH);
  await send(log, 5, 10);
  const watch = new StallWatch('nothing was read', { notReadyMs: stallMs, stuckMs: stallMs }, performance.now());
  const look = () => {
    const { lag, lastProgressAt, paused } = judge.reader.progress();
    const now = performance.now();
    watch.look({ progressAt: lag > 0 ? lastProgressAt : now, ...(paused === undefined ? {} : { paused }) }, now);
    return watch.condition(now);
  };
  await until(() => !look().ok, { what: 'the worker not to be ready' });
  const { restarts } = await until(() => judge.reader.progress().counters, {
    what: 'the consumer to be replaced',
    accept: (counters) => counters.restarts === 1,
  });
  expect(restarts).toBe(1);
  expect(judge.warnings.join()).toMatch(/entries wait and none was read for \d+ s; trying again/);
  // Until something is read, however it is connected by now.
  expect(look()).toMatchObject({ ok: false, stuck: true });
  proxy.heal();
  await until(() => look().ok, { what: 'it to be ready', timeoutMs: 30_000 });
  await judges.untilWindows(['A'], pattern(0, 10), [judge]);
  expect(judge.reader.progress().counters.restarts).toBe(1);
}, 90_000);

const COORDINATOR_NOT_AVAILABLE = 15;

it('4.05 a worker whose brokers are away until kafkajs gave up, and whose coordinator is away longer, reads on without a restart; told to end meanwhile, or while they are frozen, it ends soon', async () => {
  const log = await open(2);
  const judges = await judgesOf(log);
  const env = await workerEnv(log);
  const untilWindow = (to: number) =>
    until(() => judges.window('A'), {
      what: `${to} outcomes in the window`,
      accept: (window) => window === text(pattern(0, to)),
      timeoutMs: 40_000,
    });
  const one = startWorker('outcomes', env);
  const two = startWorker('outcomes', env);
  await untilReady(one);
  await untilReady(two);
  await send(log, 0, 20);
  await untilWindow(20);

  await proxy.refuse();
  await broker.stop();
  // It takes its time, and nobody reaches it yet.
  const restarting = start();
  await readyz(one, 503, 'Kafka cannot be used: ');
  const warned = one.lines.length;
  const began = performance.now();
  // 60 s would show no more: from the second of them on each is a new consumer, made after a back-off of 5 s at most, that finds nobody.
  await until(() => metric(one, 'fuseline_log_events_total{event="restarts"}'), {
    what: 'kafkajs to give up, and a new consumer to find nobody either',
    accept: (restarts) => restarts >= 2,
    timeoutMs: 60_000,
  });
  const seconds = (performance.now() - began) / 1_000;
  expect(one.lines.length - warned).toBeLessThan(5 + 2 * seconds);
  expect(await endOf(two)).toBeLessThan(4_000);
  expect((await get(one, '/healthz')).status).toBe(200);
  const spoiled = proxy.spoiled();
  proxy.failCoordinator(COORDINATOR_NOT_AVAILABLE);
  await restarting;
  await proxy.accept();
  await until(() => proxy.spoiled() >= spoiled + 3, {
    what: 'the coordinator to be looked for in vain',
    timeoutMs: 20_000,
  });
  expect((await get(one, '/healthz')).status).toBe(200);
  proxy.heal();
  await send(log, 20, 40);
  await untilWindow(40);
  await readyz(one, 200);

  // It does not know yet that nothing will be answered.
  await send(log, 40, 50);
  proxy.freeze();
  expect(await endOf(one)).toBeLessThan(7_000);
  proxy.heal();
  startWorker('outcomes', env);
  await send(log, 50, 60);
  await untilWindow(60);
}, 240_000);

/** Tells a worker to end, sees that it does so in good order, and resolves to how long it took; ms. */
async function endOf(worker: Worker): Promise<number> {
  const toldAt = performance.now();
  worker.kill('SIGTERM');
  expect(await worker.exited).toEqual({ code: 0, signal: null });
  return performance.now() - toldAt;
}
