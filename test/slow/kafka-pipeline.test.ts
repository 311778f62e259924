import { beforeAll, expect, it } from 'vitest';
import { withAdmin } from '../../src/transport/kafka/client.js';
import { createTopics } from '../../src/transport/kafka/topic.js';
import { fuseline } from '../cli/run.js';
import { seeIncident, startPipeline } from '../process/pipeline.js';
import { get, metric, startWorker, untilReady } from '../process/workers.js';
import { sharedKafka, uniqueTopic } from '../support/kafka.js';
import { sharedRedisUrl, startRedis } from '../support/redis.js';
import { startTcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/wait.js';

beforeAll(sharedKafka, 120_000);

async function newTopic(partitions: number): Promise<{ brokers: string; topic: string }> {
  const brokers = await sharedKafka();
  const topic = uniqueTopic();
  await withAdmin({ brokers: brokers.split(',') }, (admin) =>
    createTopics(admin, { topic, partitions, replicas: 1, retentionMs: 3_600_000 }),
  );
  return { brokers, topic };
}

it.concurrent('three separate processes on Kafka block a failing channel, tell people, bring it back, and tell them that too', async () => {
  const kafka = await newTopic(3);
  const pipeline = await startPipeline({ redis: sharedRedisUrl(), kafka });
  await seeIncident(pipeline, '微信支付');
  const { outcomes, recovery, alerts } = pipeline.workers;
  const line = (kind: string) => `circuit_breaker_state_changes_total{channel="微信支付",kind="${kind}"}`;
  expect(await metric(outcomes, line('blocked'))).toBe(1);
  expect((await metric(outcomes, line('recovered'))) + (await metric(recovery, line('recovered')))).toBe(1);
  expect(await metric(outcomes, 'fuseline_log_shards_owned')).toBe(3);
  await until(() => metric(outcomes, 'fuseline_log_lag'), { what: 'no lag', accept: (lag) => lag === 0 });
  expect(await metric(outcomes, 'fuseline_log_events_total{event="commits"}')).toBeGreaterThan(0);

  const status = JSON.parse((await fuseline(['status', '--json'], pipeline.env)).out);
  expect(status).toMatchObject({ workers: { outcomes: 1 }, log: { shards: 3, lag: 0 } });
  expect(status.channels[0]).toMatchObject({ channel: '微信支付' });

  // A second one shares the partitions; the first is killed, and the story goes on.
  const second = startWorker('outcomes', pipeline.env);
  await until(() => metric(second, 'fuseline_log_shards_owned'), { what: 'its share', timeoutMs: 30_000 });
  outcomes.kill('SIGKILL');
  await outcomes.exited;
  await until(() => metric(second, 'fuseline_log_shards_owned'), {
    what: 'all partitions',
    accept: (owned) => owned === 3,
    timeoutMs: 40_000,
  });
  await seeIncident(pipeline, 'ALIPAY');
  for (const worker of [second, recovery, alerts]) worker.kill('SIGTERM');
  for (const worker of [second, recovery, alerts]) expect(await worker.exited).toEqual({ code: 0, signal: null });
}, 180_000);

it.concurrent('a worker on Kafka whose Redis is away is not ready, with the reason, stays in its group, and goes on alone', async () => {
  const { brokers, topic } = await newTopic(2);
  const server = await startRedis();
  const proxy = await startTcpProxy({ port: server.port });
  const pipeline = await startPipeline({ redis: server.url, kafka: { brokers, topic } });
  const { outcomes } = pipeline.workers;
  outcomes.kill('SIGTERM');
  await outcomes.exited;
  const worker = startWorker('outcomes', { ...pipeline.env, FUSELINE_REDIS_URL: proxy.url });
  await untilReady(worker);
  await until(() => metric(worker, 'fuseline_log_shards_owned'), { what: 'its partitions', accept: (n) => n === 2 });
  const joined = await metric(worker, 'fuseline_log_events_total{event="rebalances"}');
  const events = (event: string) => metric(worker, `fuseline_log_events_total{event="${event}"}`);
  await pipeline.publish('ALIPAY', true);
  await until(() => events('commits'), { what: 'a batch to be done with' });
  const before = await events('entries_read');
  await proxy.refuse();
  await until(() => get(worker, '/readyz'), {
    what: 'not ready, and why',
    accept: ({ status, body }) => status === 503 && body.includes(`Redis at 127.0.0.1:${proxy.port} cannot be used`),
  });
  await pipeline.publish('ALIPAY', false, 5);
  const inHand = await until(() => events('entries_read'), { what: 'a batch', accept: (read) => read > before });
  for (let round = 0; round < 5; round += 1) await pipeline.publish('ALIPAY', false);
  // Longer than the session of a consumer group.
  await new Promise((resolve) => setTimeout(resolve, 12_000));
  // What it has in hand is tried again with a back-off, and no more is taken into memory.
  expect(await events('entries_read')).toBe(inHand);
  expect(await events('redeliveries')).toBeLessThan(20);
  expect((await get(worker, '/healthz')).status).toBe(200);
  expect((await get(worker, '/readyz')).status).toBe(503);
  await proxy.accept();
  await until(() => pipeline.blocked.has('ALIPAY'), { what: 'the block', timeoutMs: 30_000 });
  await untilReady(worker);
  await until(() => metric(worker, 'fuseline_log_lag'), { what: 'no lag', accept: (lag) => lag === 0 });
  expect(await events('rebalances')).toBe(joined);
  expect(await events('restarts')).toBe(0);
}, 120_000);
