import { expect, it } from 'vitest';
import { createPublisher } from '../../src/publisher/index.js';
import { place } from '../cli/place.js';
import { startHttpReceiver } from '../support/http-receiver.js';
import { startProcess } from '../support/processes.js';
import { releaseAtEnd } from '../support/releasers.js';
import { until } from '../support/wait.js';
import { rulesFile, startRoles, untilReady } from './workers.js';

it('5.09 SIGTERM lets a delivery in progress finish and its job be done, then ends with 0', async () => {
  const receiver = await startHttpReceiver();
  receiver.answerAlways({ status: 200, body: 'ok', afterMs: 1_500 });
  const { keys, client, env, prefix } = place();
  const worker = startRoles([], {
    ...env,
    FUSELINE_ALLOW_PRIVATE_RECEIVERS: 'true',
    FUSELINE_RULES: await rulesFile({
      mode: 'on',
      defaults: { window: 5, successRate: 70, block: '1m', hold: '1m' },
      receivers: { ops: { type: 'webhook', url: receiver.url } },
      routes: [{ to: ['ops'] }],
    }),
  });
  await untilReady(worker);
  const publisher = createPublisher({ url: env.FUSELINE_REDIS_URL!, prefix });
  releaseAtEnd(() => publisher.close());
  for (let i = 0; i < 2; i += 1) publisher.publish({ channel: 'A', success: false });
  await publisher.flush();
  await receiver.waitForRequests(1);
  worker.kill('SIGTERM');
  expect(await worker.exited).toEqual({ code: 0, signal: null });
  expect(worker.lines.filter((line) => JSON.parse(line).level >= 40)).toEqual([]);
  expect(receiver.requests).toHaveLength(1);
  expect(await client.zcard(`${keys.queues}:deliver-ops:completed`)).toBe(1);
  expect(await client.llen(`${keys.queues}:deliver-ops:active`)).toBe(0);
  expect(await client.llen(keys.channel('A')[4])).toBe(0);
  // The shards are free at once: nobody has to wait for a lease to run out.
  expect(await client.exists(keys.lease(0))).toBe(0);
  expect(await client.zcard(keys.workers)).toBe(0);
  expect(await client.exists(keys.outcomes(0))).toBe(1);
});

it.each(['throws', 'rejects'])(
  'an error that nobody handled (%s) is logged and ends the process with 1',
  async (how) => {
    const worker = startProcess('test/process/unhandled.mjs', [how], { ...place().env, FUSELINE_HTTP_PORT: '0' });
    expect(await worker.exited).toEqual({ code: 1, signal: null });
    const last = JSON.parse(worker.lines.at(-1)!);
    expect(last).toMatchObject({ level: 60, msg: 'an error that nobody handled', err: { message: 'a bug' } });
    expect(await until(() => last.err.stack, { what: 'the stack' })).toContain('unhandled.mjs');
  },
);
