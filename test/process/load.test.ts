import { expect, it } from 'vitest';
import { place } from '../cli/place.js';
import { fuselineHere } from '../cli/run.js';
import { until } from '../support/wait.js';
import { metric, rulesFile, startRoles } from './workers.js';

it('processes whose load is set high judge dynamic channels more patiently, and say by which numbers', async () => {
  const { env } = place();
  const rules = await rulesFile({
    version: 1,
    mode: 'on',
    channels: { ALIPAY: { window: 10, successRate: 70, dynamic: true } },
  });
  await fuselineHere(['load', 'set', '0.95', '--for', '10m', '--actor', 'ann'], env);
  const worker = startRoles(['outcomes', 'recovery'], { ...env, FUSELINE_RULES: rules });
  await until(() => metric(worker, 'fuseline_window_factor'), {
    what: 'the factor',
    accept: (factor) => factor === 1.5,
  });
  expect(await metric(worker, 'fuseline_rate_factor')).toBe(1.2);
  expect(await metric(worker, 'fuseline_load')).toBe(0.95);
  const line = JSON.parse(await worker.waitForLine(/the load changed/));
  expect(line).toMatchObject({
    ...{ level: 30, load: 0.95, source: 'hand', actor: 'ann', windowFactor: 1.5, rateFactor: 1.2 },
    policies: [{ window: 15, successRate: 64, channels: ['ALIPAY'], more: 0 }],
  });
  worker.kill('SIGTERM');
  expect(await worker.exited).toEqual({ code: 0, signal: null });
}, 60_000);
