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

  // Lost again and again: the worker puts its schedules back by itself, perhaps just now.
  const lose = async () => {
    const found = await client.keys(`${keys.queues}:sweep:*`);
    if (found.length > 0) await client.del(...found);
  };
  const readyz = async () => {
    await lose();
    return get(worker, '/readyz');
  };
  const red = await until(readyz, {
    what: 'the worker to tell that nobody sweeps',
    accept: ({ status }) => status === 503,
    timeoutMs: 30_000,
  });
  // A job that was under way when its keys went is told as what it is, a fault of the queue.
  expect(JSON.parse(red.body).checks.recovery.reason).toMatch(
    /^(no sweep was seen for \d\d s|Redis does not take the queues: Missing key for job .*)$/,
  );
  expect((await get(worker, '/healthz')).status).toBe(200);
  await until(() => get(worker, '/readyz'), {
    what: 'sweeps to resume',
    accept: ({ status }) => status === 200,
    timeoutMs: 45_000,
  });
}, 120_000);
