import { describe, expect, it } from 'vitest';
import { openQueues } from '../../src/queue/queues.js';
import { closeRedis, openRedis } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import { blocked, recovered } from '../alert/samples.js';
import { receiver, rulesWith, startAlerts } from '../notify/harness.js';
import { rulesFile, startWorker } from '../process/workers.js';
import { startHttpReceiver } from '../support/http-receiver.js';
import { sharedRedisUrl, startRedis, uniquePrefix } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';
import { startTcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/wait.js';

describe.concurrent('alerts while Redis is away', () => {
  it('8.10 whose delivery could not be noted are sent again with the same id, never lost', {
    timeout: 60_000,
  }, async () => {
    const server = await startRedis();
    const proxy = await startTcpProxy({ port: server.port });
    const http = await startHttpReceiver();
    http.answerNext({ status: 200, afterMs: 200 });
    const harness = await startAlerts(rulesWith(receiver('ops', http.url, { timeoutMs: 1_000 })), {
      url: server.url,
      toldUrl: proxy.url,
    });
    await harness.queues.addNotify(blocked());
    await http.waitForRequests(1);
    // Between the request and the note that it arrived.
    await proxy.refuse();
    const delayed = async () => (await harness.queues.queue('deliver-ops').counts()).delayed === 1;
    await until(delayed, { what: 'the job to wait for Redis', timeoutMs: 20_000 });
    await proxy.accept();
    await http.waitForRequests(2, { timeoutMs: 20_000 });
    await until(async () => (await harness.queues.queue('deliver-ops').counts()).delayed === 0, {
      what: 'the job to end',
    });
    await harness.queues.addNotify(recovered());
    const requests = await http.waitForRequests(3);
    expect(requests.map(({ body }) => JSON.parse(body).type)).toEqual([
      'channel.blocked',
      'channel.blocked',
      'channel.recovered',
    ]);
    expect(requests[1]!.headers['webhook-id']).toBe(requests[0]!.headers['webhook-id']);
  });

  it('5.06 go on within 30 s of its return, without a restart of the process', { timeout: 60_000 }, async () => {
    const server = await startRedis();
    const proxy = await startTcpProxy({ port: server.port });
    const http = await startHttpReceiver();
    const harness = await startAlerts(rulesWith(receiver('ops', http.url)), { url: proxy.url });
    await harness.queues.addNotify(blocked());
    await http.waitForRequests(1);
    await proxy.refuse();
    await until(() => harness.alerts.status().paused, { what: 'the outage to be noticed', timeoutMs: 15_000 });
    await proxy.accept();
    const backAt = performance.now();
    await until(() => harness.queues.addNotify(recovered()).then(() => true), { what: 'the queue to take jobs' });
    await http.waitForRequests(2, { timeoutMs: 30_000 });
    expect(performance.now() - backAt).toBeLessThan(30_000);
    await until(() => harness.alerts.status().paused === undefined, {
      what: 'the flow to see Redis again',
      timeoutMs: 15_000,
    });
  });
});

it.concurrent('an alert whose worker is killed in the middle of its delivery, twice, is sent by the third, with the same id', async () => {
  const http = await startHttpReceiver();
  http.answerAlways('hang');
  const [url, prefix] = [sharedRedisUrl(), uniquePrefix()];
  const client = openRedis(url, 'queue-producer');
  const queues = openQueues({ client, prefix: new Keys(prefix).queues });
  releaseAtEnd(() => queues.close().then(() => closeRedis(client)));
  const env = {
    FUSELINE_REDIS_URL: url,
    FUSELINE_PREFIX: prefix,
    FUSELINE_ALLOW_PRIVATE_RECEIVERS: 'true',
    FUSELINE_RULES: await rulesFile({
      version: 1,
      receivers: { ops: { type: 'webhook', url: http.url } },
      routes: [{ to: ['ops'] }],
    }),
  };
  const begun = performance.now();
  await queues.addNotify(blocked());
  for (let killed = 1; killed <= 2; killed += 1) {
    const worker = startWorker('alerts', env);
    await http.waitForRequests(killed, { timeoutMs: 40_000 });
    worker.kill('SIGKILL');
    await worker.exited;
  }
  http.answerAlways({ status: 200 });
  startWorker('alerts', env);
  const requests = await http.waitForRequests(3, { timeoutMs: 40_000 });
  await until(async () => (await queues.queue('deliver-ops').counts()).active === 0, { what: 'the job to end' });
  console.info(`killed twice, delivered after ${Math.round(performance.now() - begun)} ms`);
  expect(new Set(requests.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
  expect(requests).toHaveLength(3);
  expect(await queues.queue('deliver-ops').counts()).toMatchObject({ active: 0, waiting: 0, delayed: 0, failed: 0 });
}, 120_000);
