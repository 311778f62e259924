import { expect, it } from 'vitest';
import { closeRedis, openRedis } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import { alertsOf, seeIncident, startPipeline } from '../process/pipeline.js';
import { type Env, metric, startWorker, untilReady } from '../process/workers.js';
import { sharedRedisUrl } from '../support/redis.js';
import { startTcpProxy } from '../support/tcp-proxy.js';
import { sleep, until } from '../support/wait.js';

it.concurrent('8.04 tells one recovery and no second block when every process was killed while the block ended', async () => {
  const { workers, receiver, reader, publish, env } = await startPipeline({ redis: sharedRedisUrl() }, { hold: '1m' });
  await publish('ALIPAY', false, 2);
  const kinds = () => alertsOf(receiver, 'ALIPAY').map(({ type }) => type);
  await until(kinds, { what: 'the alert', accept: (all) => all.length === 1 });
  // Killed in the middle of the delivery, it would be sent again, with the same id: that is another story.
  await untilDelivered(env);
  for (const worker of Object.values(workers)) worker.kill('SIGKILL');
  await Promise.all(Object.values(workers).map((worker) => worker.exited));
  await until(() => !reader.isBlocked('ALIPAY'), { what: 'the block to end by itself' });

  const again = (['outcomes', 'recovery', 'alerts'] as const).map((role) => startWorker(role, env));
  await Promise.all(again.map(untilReady));
  await until(kinds, { what: 'the recovery', accept: (all) => all.length >= 2 });
  // Three sweeps later nobody has told anything twice.
  const sweeps = await metric(again[1]!, 'fuseline_sweeps_total{result="done"}');
  await until(() => metric(again[1]!, 'fuseline_sweeps_total{result="done"}'), {
    what: 'three more sweeps',
    accept: (now) => now >= sweeps + 3,
  });
  expect(kinds()).toEqual(['channel.blocked', 'channel.recovered']);
}, 120_000);

async function untilDelivered(env: Env): Promise<void> {
  const client = openRedis(env.FUSELINE_REDIS_URL!, 'commands');
  try {
    const done = `${new Keys(env.FUSELINE_PREFIX).queues}:deliver-ops:completed`;
    await until(() => client.zcard(done), { what: 'the delivery to be done' });
  } finally {
    await closeRedis(client);
  }
}

const CHANNELS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];

/** One of two outcome workers ends in this way; the other has blocked every channel within this time. */
async function seeOtherJudgeOn(how: 'SIGKILL' | 'SIGTERM', withinMs: number): Promise<void> {
  const { workers, env, blocked, publish } = await startPipeline({ redis: sharedRedisUrl() });
  const second = startWorker('outcomes', env);
  await untilReady(second);
  await until(() => metric(second, 'fuseline_log_shards_owned'), {
    what: 'the second worker to have its share',
    accept: (shards) => shards === 2,
    timeoutMs: 20_000,
  });
  // Enough channels for some to lie on the shards of the worker that goes, which has outcomes in hand at that moment.
  for (const channel of CHANNELS) await publish(channel, true, 100);
  workers.outcomes.kill(how);
  const from = performance.now();
  for (const channel of CHANNELS) await publish(channel, false, 2);
  await until(() => CHANNELS.every((channel) => blocked.has(channel)), {
    what: 'every channel to be blocked',
    timeoutMs: withinMs,
  });
  expect(performance.now() - from).toBeLessThan(withinMs);
  expect(await workers.outcomes.exited).toEqual(
    how === 'SIGTERM' ? { code: 0, signal: null } : { code: null, signal: how },
  );
}

it.concurrent(
  'another worker judges on within 12 s when one of two gets SIGKILL',
  () => seeOtherJudgeOn('SIGKILL', 12_000),
  120_000,
);

it.concurrent('5.06 goes on within 30 s when Redis comes back after 10 s, without a restart of any process', async () => {
  const proxy = await startTcpProxy({ port: Number(new URL(sharedRedisUrl()).port) });
  const pipeline = await startPipeline({ redis: proxy.url }, { block: '5s' });
  await seeIncident(pipeline, 'before');
  await proxy.refuse();
  await sleep(10_000);
  await proxy.accept();
  const backAt = performance.now();
  await until(() => pipeline.reader.status().connected, { what: 'the reader to be back' });
  await seeIncident(pipeline, 'after');
  expect(performance.now() - backAt).toBeLessThan(30_000);
}, 120_000);

// Not beside the others, which start processes: a second is little.
it(
  'another worker judges on within 1 s when one of two gets SIGTERM',
  () => seeOtherJudgeOn('SIGTERM', 1_000),
  120_000,
);
