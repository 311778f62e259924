import { expect, it } from 'vitest';
import { fuseline } from '../cli/run.js';
import { alertsOf, type Pipeline, seeIncident, startPipeline } from '../process/pipeline.js';
import { sharedRedisUrl, startRedis } from '../support/redis.js';
import { startCluster } from '../support/redis-cluster.js';
import { startSentinel } from '../support/redis-sentinel.js';
import { until } from '../support/wait.js';

/** Whatever else is at work, a block is told before it ends: told later, its end alone would be. */
const SLOWER = { block: '5s' };

it.concurrent('the pipeline works with log and queues on servers of their own', async () => {
  const [log, queue] = await Promise.all([startRedis(), startRedis()]);
  const pipeline = await startPipeline({ redis: sharedRedisUrl(), log: log.url, queue: queue.url }, SLOWER);
  await seeIncident(pipeline, 'sms/one');
}, 120_000);

it.concurrent('the pipeline works on a cluster of six, by its URL alone', async () => {
  const { url } = await startCluster();
  const pipeline = await startPipeline({ redis: url }, SLOWER);
  await seeIncident(pipeline, '微信支付');
  await seeIncident(pipeline, 'stripe/eu-1');
  expect(await fuseline(['block', 'ALIPAY', '--for', '1h'], pipeline.env)).toMatchObject({ code: 0, err: '' });
  const status = JSON.parse((await fuseline(['status', '--json'], pipeline.env)).out);
  expect(status).toMatchObject({ workers: { outcomes: 1 }, log: { shards: 4, lag: 0 } });
  expect(status.channels[0]).toMatchObject({ channel: 'ALIPAY', blocked: true, byHand: true });
  await until(() => pipeline.reader.isBlocked('ALIPAY'), { what: 'the block by hand' });
}, 120_000);

it.concurrent('5.06 the pipeline works behind Sentinel, by its URL alone, and goes on after a failover without a restart', async () => {
  const sentinel = await startSentinel();
  const pipeline = await startPipeline({ redis: sentinel.url }, SLOWER);
  await seeIncident(pipeline, 'before');
  await sentinel.killPrimary();
  await publishUntilBlocked(pipeline, 'after');
  const kinds = () => alertsOf(pipeline.receiver, 'after').map(({ type }) => type);
  await until(kinds, { what: 'the alerts to drain', accept: (all) => all.length >= 3, timeoutMs: 30_000 });
  expect(kinds()).toEqual(['channel.blocked', 'channel.recovered', 'channel.held']);
  for (const worker of Object.values(pipeline.workers)) {
    worker.kill('SIGTERM');
    expect(await worker.exited).toEqual({ code: 0, signal: null });
  }
}, 150_000);

/** What was on its way at the failover may be lost, so the service goes on publishing, as services do. */
async function publishUntilBlocked({ publish, blocked }: Pipeline, channel: string): Promise<void> {
  await until(
    async () => {
      await publish(channel, false);
      return blocked.has(channel);
    },
    { what: `${channel} to be blocked after the failover`, timeoutMs: 30_000, intervalMs: 500 },
  );
}
