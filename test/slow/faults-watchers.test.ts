import { expect, it } from 'vitest';
import { openQueues } from '../../src/queue/queues.js';
import { closeRedis, openRedis } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import { place } from '../cli/place.js';
import { alertsOf } from '../process/pipeline.js';
import { get, metric, startWorker, untilReady } from '../process/workers.js';
import { openFleet, SHORT } from '../support/fleet.js';
import { sharedRedisUrl, startRedis } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';
import { verifyAtEnd } from '../support/verifier.js';
import { sleep, until } from '../support/wait.js';

it.concurrent('with three watchers, a queue that is gone while a block begins and ends, and comes back empty, costs no alert and doubles none', async () => {
  const redis = sharedRedisUrl();
  const first = await startRedis();
  const fleet = await openFleet({ redis, queue: first.url });
  const { publisher, receiver, prefix, start } = fleet;
  await Promise.all([start('outcomes'), start('alerts'), start('recovery'), start('recovery'), start('recovery')]);
  const client = openRedis(redis, 'queue-worker');
  releaseAtEnd(() => closeRedis(client));
  const keys = new Keys(prefix);
  const types = (channel: string) => alertsOf(receiver, channel).map(({ type }) => type.replace('channel.', ''));
  const fail = (channel: string) => {
    for (let i = 0; i < 4; i += 1) publisher.publish({ channel, success: false });
  };

  fail('before');
  await until(() => types('before'), { what: 'a whole incident', accept: (all) => all.length === 3 });
  process.kill(first.pid, 'SIGKILL');
  fail('during');
  await until(() => client.exists(keys.blocked('during')), { what: 'the block', intervalMs: 10 });
  // The block ends, and the channel goes on being called: every batch finds its outbox full.
  for (let i = 0; i < 150; i += 1) {
    publisher.publish({ channel: 'during', success: true });
    await sleep(20);
  }
  expect(await client.exists(keys.blocked('during'))).toBe(0);
  const second = await startRedis({ port: first.port });
  await until(() => types('during'), {
    what: 'the end to be told, by sweeps that began again',
    accept: (all) => all.at(-1) === 'held',
    timeoutMs: 30_000,
  });
  expect(types('before')).toEqual(['blocked', 'recovered', 'held']);
  expect(types('during').filter((type) => type === 'recovered')).toHaveLength(1);
  const end = { url: redis, queueUrl: second.url, prefix, policy: SHORT, receiver, merged: true };
  const verdict = await verifyAtEnd(end, 2_000);
  console.info('watchers:', JSON.stringify(verdict));
  // The queue forgot the jobs of what it had done before.
  expect(verdict.problems.filter((problem) => !/no notify job/.test(problem))).toEqual([]);
  expect(verdict.repeated).toBeLessThan(12);
  expect(await client.xlen(keys.incidents)).toBeLessThan(6 + 12);
}, 120_000);

it.concurrent('an endpoint that refused everything through a whole incident takes the true end last; sweeps whose schedule was deleted resume within 30 s', async () => {
  const redis = sharedRedisUrl();
  const { publisher, receiver, prefix, start } = await openFleet({ redis });
  await start('outcomes', 'recovery', 'alerts');
  const client = openRedis(redis, 'queue-worker');
  releaseAtEnd(() => closeRedis(client));
  let isUp = false;
  const taken: string[] = [];
  receiver.answerAlways(({ body }) => {
    if (isUp) taken.push(`${JSON.parse(body).channel} ${JSON.parse(body).type.slice('channel.'.length)}`);
    return { status: isUp ? 200 : 500 };
  });
  const fail = (channel: string) => {
    for (let i = 0; i < 4; i += 1) publisher.publish({ channel, success: false });
  };
  fail('refused');
  const tried = () => receiver.requests.map(({ body }) => JSON.parse(body).type as string);
  await until(() => tried().includes('channel.recovered'), { what: 'the end to be tried', timeoutMs: 15_000 });
  isUp = true;
  await until(() => taken.at(-1) === 'refused held', { what: 'the end to arrive', timeoutMs: 20_000 });
  expect(taken).toEqual(['refused recovered', 'refused held']);

  const queues = new Keys(prefix).queues;
  fail('jobless');
  await until(() => taken.at(-1) === 'jobless blocked', { what: 'the next block to be told' });
  const lost = await Promise.all(['sweep', 'recovery'].map((name) => client.keys(`${queues}:${name}:*`)));
  await client.del(...lost.flat());
  const rest = () => taken.slice(3);
  await until(rest, { what: 'the rest', accept: (all) => all.length === 2, timeoutMs: 36_000 });
  expect(rest()).toEqual(['jobless recovered', 'jobless held']);
}, 150_000);

it.concurrent('a recovery worker is ready while sweeps are seen, red when the schedule is lost, and heals by itself', async () => {
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
