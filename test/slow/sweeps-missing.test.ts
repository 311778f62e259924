import { expect, it } from 'vitest';
import { openQueues } from '../../src/queue/queues.js';
import { place } from '../cli/place.js';
import { get, metric, startWorker, untilReady } from '../process/workers.js';
import { releaseAtEnd } from '../support/releasers.js';
import { until } from '../support/wait.js';

it('a recovery worker is ready while sweeps are seen, red when the schedule is lost, and heals by itself', async () => {
  const { keys, client, env } = place();
  const worker = startWorker('recovery', env);
  await untilReady(worker);
  const queues = openQueues({ client, prefix: keys.queues });
  releaseAtEnd(() => queues.close());
  const first = await until(() => queues.queue('sweep').lastDone(), { what: 'a sweep to be done' });
  await until(() => metric(worker, 'fuseline_sweeps_total{result="done"}'), {
    what: 'sweeps for longer than the limit',
    accept: (sweeps) => sweeps > 12,
    timeoutMs: 30_000,
  });
  expect(await queues.queue('sweep').lastDone()).not.toBe(first);
  expect((await get(worker, '/readyz')).status).toBe(200);

  const sweeps = queues.queue('sweep');
  const lose = async () => {
    // Between two sweeps: one that is under way when its keys go would be told as a fault of the queue.
    const last = await sweeps.lastDone();
    await until(() => sweeps.lastDone(), {
      what: 'a sweep to be done',
      accept: (id) => id !== last,
      timeoutMs: 25_000,
    });
    await client.del(...(await client.keys(`${keys.queues}:sweep:*`)));
  };
  await lose();
  // Put back, at most 20 s later. What is lost right after that stays lost for longer than the worker takes to say so.
  await until(() => client.exists(`${keys.queues}:sweep:repeat`), {
    what: 'the schedule to be put back',
    timeoutMs: 25_000,
  });
  await lose();
  const red = await until(() => get(worker, '/readyz'), {
    what: 'the worker to tell that nobody sweeps',
    accept: ({ status }) => status === 503,
    timeoutMs: 20_000,
  });
  expect(JSON.parse(red.body).checks.recovery.reason).toMatch(/^no sweep was seen for 1\d s$/);
  expect((await get(worker, '/healthz')).status).toBe(200);
  await until(() => get(worker, '/readyz'), {
    what: 'sweeps to resume',
    accept: ({ status }) => status === 200,
    timeoutMs: 35_000,
  });
}, 120_000);
