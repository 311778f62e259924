import { openQueues, type Queues, type QueuesOptions } from '../../src/queue/queues.js';
import { type JobWorker, openWorker, type WorkerOptions } from '../../src/queue/worker.js';
import { closeRedis, openRedis, type RedisClient } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import { sharedRedisUrl, uniquePrefix } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';

export type QueueHarness = {
  keys: Keys;
  producer: RedisClient;
  consumer: RedisClient;
  queues: Queues;
  work(options: Pick<WorkerOptions, 'name' | 'handle'> & Partial<WorkerOptions>): JobWorker;
};

/** Queues under a prefix of the test's own; everything is closed at its end, consumers first. */
export function queueHarness(url = sharedRedisUrl(), options: Partial<QueuesOptions> = {}): QueueHarness {
  const keys = new Keys(uniquePrefix());
  const producer = openRedis(url, 'queue-producer');
  const consumer = openRedis(url, 'queue-worker');
  const queues = openQueues({ client: producer, prefix: keys.queues, ...options });
  const workers: JobWorker[] = [];
  releaseAtEnd(async () => {
    await Promise.all(workers.map((worker) => worker.close()));
    await queues.close();
    await Promise.all([closeRedis(producer), closeRedis(consumer)]);
  });
  return {
    keys,
    producer,
    consumer,
    queues,
    work(workerOptions) {
      const worker = openWorker({ client: consumer, prefix: keys.queues, closeWithinMs: 2_000, ...workerOptions });
      workers.push(worker);
      return worker;
    },
  };
}
