import { expect, it } from 'vitest';
import { sharedRedisUrl } from '../support/redis.js';
import { seeIncident, startPipeline } from './pipeline.js';
import { metric } from './workers.js';

it('three separate processes block a failing channel, tell people, bring it back, and tell them that too', async () => {
  const pipeline = await startPipeline({ redis: sharedRedisUrl() });
  await seeIncident(pipeline, '微信支付');
  const { outcomes, recovery, alerts } = pipeline.workers;
  const line = (kind: string) => `circuit_breaker_state_changes_total{channel="微信支付",kind="${kind}"}`;
  expect(await metric(outcomes, line('blocked'))).toBe(1);
  expect(await metric(recovery, line('blocked'))).toBe(0);
  expect((await metric(outcomes, line('recovered'))) + (await metric(recovery, line('recovered')))).toBe(1);
  expect(await metric(alerts, 'fuseline_alerts_total{receiver="ops",result="delivered"}')).toBe(3);
  for (const worker of [outcomes, recovery, alerts]) worker.kill('SIGTERM');
  for (const worker of [outcomes, recovery, alerts]) expect(await worker.exited).toEqual({ code: 0, signal: null });
}, 60_000);
