import { describe, expect, it } from 'vitest';
import { jobId, notifyJobId } from '../../src/queue/job-id.js';
import { openQueue } from '../../src/queue/queue.js';
import { openQueues } from '../../src/queue/queues.js';
import type { Job, Verdict } from '../../src/queue/worker.js';
import { closeRedis, openRedis, whenReady } from '../../src/redis/client.js';
import { blocked } from '../alert/samples.js';
import { startRedis } from '../support/redis.js';
import { startCluster } from '../support/redis-cluster.js';
import { startTcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/wait.js';
import { queueHarness } from './harness.js';

describe('job ids', () => {
  it('5.03 are hashes, so that colons, integers and "0:" in names are no trouble', async () => {
    const { queues } = queueHarness();
    for (const channel of ['a:b', '123', '0:1', 'a:b:c']) {
      await queues.queue('notify').add('blocked', { channel }, { jobId: jobId(channel, 1, 'blocked') });
    }
    expect((await queues.queue('notify').counts()).waiting).toBe(4);
  });

  it('keep their parts apart', () => {
    expect(jobId('a', 'bc')).not.toBe(jobId('ab', 'c'));
    expect(jobId('a', 1)).toBe(jobId('a', '1'));
    expect(jobId('x')).toMatch(/^[0-9a-f]{64}$/);
  });

  it('name the end of a block by the block, and everything else by its own epoch', () => {
    const end = { channel: 'ALIPAY', kind: 'recovered', block: 7 } as const;
    expect(notifyJobId({ ...end, epoch: 8 })).toBe(notifyJobId({ ...end, epoch: 9 }));
    expect(notifyJobId({ ...end, kind: 'blocked', epoch: 8 })).not.toBe(
      notifyJobId({ ...end, kind: 'blocked', epoch: 9 }),
    );
  });

  it('5.02 a done and kept job does not shadow the next block, because its epoch is another', async () => {
    const { queues, work } = queueHarness();
    const seen: Job[] = [];
    work({ name: 'notify', handle: async (job) => void seen.push(job) });
    const add = (epoch: number) => queues.queue('notify').add('blocked', {}, { jobId: jobId('A', epoch, 'blocked') });
    await add(1);
    await until(() => seen.length === 1, { what: 'the first job' });
    await add(1);
    await add(2);
    await until(() => seen.length === 2, { what: 'the second block' });
    expect(seen.map((job) => job.id)).toEqual([jobId('A', 1, 'blocked'), jobId('A', 2, 'blocked')]);
  });

  it('5.04 a job whose hash was deleted by hand is added again', async () => {
    const { queues, producer, keys } = queueHarness();
    const id = jobId('A', 1, 'blocked');
    const queue = queues.queue('notify');
    await queue.add('blocked', {}, { jobId: id, delayMs: 60_000 });
    await producer.del(`${keys.queues}:notify:${id}`);
    await queue.add('blocked', { again: true }, { jobId: id });
    expect(await producer.hget(`${keys.queues}:notify:${id}`, 'data')).toContain('again');
  });

  it('5.11 a counter near 300,000,000 does not come into our ids', async () => {
    const { queues, producer, keys, work } = queueHarness();
    await whenReady(producer);
    await producer.set(`${keys.queues}:notify:id`, 299_999_999);
    const seen: string[] = [];
    work({ name: 'notify', handle: async (job) => void seen.push(job.id) });
    await queues.queue('notify').add('x', {}, { jobId: jobId('one') });
    await until(() => seen.length === 1, { what: 'the job' });
    expect(seen).toEqual([jobId('one')]);
  });
});

describe('a queue', () => {
  it('5.07 answers add with an error within its deadline while Redis does not answer, and works again afterwards', async () => {
    const server = await startRedis();
    const proxy = await startTcpProxy({ port: server.port });
    const { queues, producer } = queueHarness(proxy.url, { deadlineMs: 300 });
    const add = (n: number) => queues.queue('notify').add('x', {}, { jobId: jobId('x', n) });
    await whenReady(producer);
    await add(1);
    proxy.pause();
    const began = performance.now();
    await expect(add(2)).rejects.toThrow(/no answer to add on queue notify within 300 ms/);
    expect(performance.now() - began).toBeLessThan(1_000);
    proxy.resume();
    await until(() => add(3).then(() => true), { what: 'add to work again' });
    await proxy.refuse();
    await expect(add(4)).rejects.toThrow();
    await proxy.accept();
    await until(() => add(4).then(() => true), { what: 'add to work again' });
  });

  it('opens while Redis is away, and works as soon as it is there', async () => {
    const server = await startRedis();
    const proxy = await startTcpProxy({ port: server.port });
    await proxy.refuse();
    const { queues } = queueHarness(proxy.url, { deadlineMs: 200 });
    const add = () => queues.queue('notify').add('x', {}, { jobId: jobId('x') });
    await expect(add()).rejects.toThrow();
    await proxy.accept();
    await until(() => add().then(() => true), { what: 'add to work' });
  });

  it('refuses a client with a keyPrefix, a prefix without a hash tag, and a delay that is no number', async () => {
    const { queues, producer, keys } = queueHarness();
    const prefixed = openRedis('redis://127.0.0.1:1', 'queue-producer');
    prefixed.options.keyPrefix = 'app:';
    expect(() => openQueue({ client: prefixed, prefix: keys.queues, name: 'x' })).toThrow(
      /without keyPrefix, got "app:"/,
    );
    await closeRedis(prefixed);
    expect(() => openQueue({ client: producer, prefix: 'bull', name: 'x' })).toThrow(
      /hash tag such as \{fuseline\}, got "bull"/,
    );
    await expect(queues.queue('notify').add('x', {}, { jobId: 'x', delayMs: Number.NaN })).rejects.toThrow(/NaN/);
  });

  it('leaves the client open when it closes', async () => {
    const { queues, producer } = queueHarness();
    await queues.queue('notify').add('x', {}, { jobId: jobId('x') });
    await queues.close();
    expect(await producer.ping()).toBe('PONG');
    await expect(queues.queue('notify').add('x', {}, { jobId: jobId('y') })).rejects.toThrow(/closed/);
  });

  it('makes one recovery job per block and end, whoever adds it', async () => {
    const { queues } = queueHarness();
    const block = { channel: 'A', block: 5, until: 99, delayMs: 60_000, incident: '1', trips: 1, blockedAt: 1 };
    await Promise.all([1, 2, 3].map(() => queues.addRecovery(block)));
    await queues.addRecovery({ ...block, until: 120 });
    expect((await queues.queue('recovery').counts()).delayed).toBe(2);
  });

  it('5.14 eight workers that announce the same transition at once make one job', async () => {
    const harness = queueHarness();
    const others = [...Array(7).keys()].map(() =>
      openQueues({ client: harness.producer, prefix: harness.keys.queues }),
    );
    await Promise.all([harness.queues, ...others].map((queues) => queues.addNotify(blocked())));
    expect(await harness.queues.queue('notify').counts()).toMatchObject({ waiting: 1 });
    await Promise.all(others.map((queues) => queues.close()));
  });

  it('5.13 many processes that renew a scheduler make one, and it comes back when its keys are lost', async () => {
    const { queues, keys, producer, work } = queueHarness();
    let runs = 0;
    work({ name: 'sweep', handle: async () => void runs++ });
    const renew = () => queues.queue('sweep').upsertScheduler('sweep', 100);
    await Promise.all([renew(), renew(), renew()]);
    expect(await producer.zcard(`${keys.queues}:sweep:repeat`)).toBe(1);
    await until(() => runs >= 3, { what: 'three sweeps' });
    const lost = await producer.keys(`${keys.queues}:sweep:*`);
    await producer.del(...lost);
    await renew();
    const before = runs;
    await until(() => runs >= before + 3, { what: 'sweeps after the loss' });
  });

  it('5.10 works on a cluster, because the prefix is a hash tag', async () => {
    const cluster = await startCluster();
    const { queues, work } = queueHarness(cluster.url);
    const seen: string[] = [];
    work({ name: 'notify', handle: async (job) => void seen.push(job.name) });
    await until(
      () =>
        queues
          .queue('notify')
          .add('x', {}, { jobId: jobId('x') })
          .then(() => true),
      { what: 'the cluster' },
    );
    await until(() => seen.length === 1, { what: 'the job' });
  });
});

describe('a worker', () => {
  const answers = (...verdicts: (Verdict | Error)[]) => {
    const runs: { attempt: number; starts: number; atMs: number }[] = [];
    const handle = async (job: Job): Promise<Verdict | undefined> => {
      runs.push({ attempt: job.attempt, starts: job.starts, atMs: performance.now() });
      const next = verdicts[runs.length - 1];
      if (next instanceof Error) throw next;
      return next;
    };
    return { runs, handle };
  };

  it('delays a job without counting an attempt', async () => {
    const { queues, work } = queueHarness();
    const { runs, handle } = answers(
      { verdict: 'later', delayMs: 100 },
      { verdict: 'later', delayMs: 100 },
      { verdict: 'done' },
    );
    work({ name: 'notify', handle });
    await queues.queue('notify').add('x', {}, { jobId: jobId('x'), attempts: 1 });
    await until(() => runs.length === 3, { what: 'three runs' });
    expect(runs.map((run) => [run.attempt, run.starts])).toEqual([
      [1, 1],
      [1, 2],
      [1, 3],
    ]);
    expect(runs[1]!.atMs - runs[0]!.atMs).toBeGreaterThan(90);
  });

  it('waits as long as the handler says before the next attempt, and gives up after the last', async () => {
    const { queues, work } = queueHarness();
    const { runs, handle } = answers({ verdict: 'retry', reason: 'busy', delayMs: 200 }, new Error('broken'));
    const dead: string[] = [];
    work({ name: 'notify', handle, onDead: (job, reason) => dead.push(`${job.attempt} ${reason}`) });
    await queues.queue('notify').add('x', {}, { jobId: jobId('x'), attempts: 2 });
    await until(async () => (await queues.queue('notify').counts()).failed === 1, { what: 'the dead job' });
    expect(runs[1]!.atMs - runs[0]!.atMs).toBeGreaterThan(190);
    expect(dead).toEqual(['2 broken']);
  });

  it('gives a job up at once when the handler says that it is dead, and keeps it', async () => {
    const { queues, work, producer, keys } = queueHarness();
    const { runs, handle } = answers({ verdict: 'dead', reason: 'no such token' });
    work({ name: 'notify', handle });
    const id = jobId('x');
    await queues.queue('notify').add('x', {}, { jobId: id, attempts: 9 });
    await until(async () => (await queues.queue('notify').counts()).failed === 1, { what: 'the dead job' });
    expect(runs).toHaveLength(1);
    expect(await producer.hget(`${keys.queues}:notify:${id}`, 'failedReason')).toBe('no such token');
  });

  it('aborts what does not end in time when it closes, and that job runs again elsewhere without a lost attempt', async () => {
    const { queues, work } = queueHarness();
    let began = false;
    const stuck = work({
      name: 'notify',
      closeWithinMs: 100,
      handle: (job) =>
        new Promise((_, reject) => {
          began = true;
          job.signal.addEventListener('abort', () => reject(new Error('aborted')));
        }),
    });
    await queues.queue('notify').add('x', {}, { jobId: jobId('x'), attempts: 1 });
    await until(() => began, { what: 'the job to begin' });
    const from = performance.now();
    await stuck.close();
    expect(performance.now() - from).toBeLessThan(2_000);
    const { runs, handle } = answers({ verdict: 'done' });
    work({ name: 'notify', handle });
    await until(() => runs.length === 1, { what: 'the second run' });
    expect(runs[0]!.attempt).toBe(1);
  });

  it('5.06 goes on after Redis was away, without a restart of the process', async () => {
    const server = await startRedis();
    const proxy = await startTcpProxy({ port: server.port });
    const { queues, work } = queueHarness(proxy.url);
    const direct = queueHarness(server.url);
    const seen: string[] = [];
    work({ name: 'notify', handle: async (job) => void seen.push(job.name) });
    await until(
      () =>
        queues
          .queue('notify')
          .add('a', {}, { jobId: jobId('a') })
          .then(() => true),
      { what: 'add' },
    );
    await until(() => seen.length === 1, { what: 'the first job' });
    await proxy.refuse();
    expect(await direct.producer.ping()).toBe('PONG');
    await proxy.accept();
    await until(
      () =>
        queues
          .queue('notify')
          .add('b', {}, { jobId: jobId('b') })
          .then(() => true),
      { what: 'add' },
    );
    await until(() => seen.length === 2, { what: 'the second job', timeoutMs: 20_000 });
  });

  it('5.01 a handler that blocks the event loop past its lock does not crash the worker', async () => {
    const { queues, work } = queueHarness();
    const errors: Error[] = [];
    let runs = 0;
    const seen: unknown[] = [];
    const handle = async ({ data }: { data: unknown }) => {
      seen.push((data as { id: string }).id);
      if (runs++ > 0) return;
      const until = performance.now() + 700;
      while (performance.now() < until);
    };
    work({ name: 'notify', handle, lockMs: 200, onError: (error) => errors.push(error) });
    work({ name: 'notify', handle, lockMs: 200, onError: (error) => errors.push(error) });
    await queues.queue('notify').add('x', { id: 'x' }, { jobId: jobId('x') });
    await until(async () => (await queues.queue('notify').counts()).active === 0 && runs > 0, {
      what: 'the job to end',
    });
    await queues.queue('notify').add('y', { id: 'y' }, { jobId: jobId('y') });
    await until(() => seen.includes('y'), { what: 'the next job' });
  });
});
