import { describe, expect, it } from 'vitest';
import { blocked, recovered } from '../alert/samples.js';
import { receiver, rulesWith, startAlerts } from '../notify/harness.js';
import { startHttpReceiver } from '../support/http-receiver.js';
import { startRedis } from '../support/redis.js';
import { startTcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/wait.js';

describe('alerts while Redis is away', () => {
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
