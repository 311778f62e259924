import { openQueues } from '../../src/queue/queues.js';
import { createWatcher, type Watcher } from '../../src/recovery/watcher.js';
import { closeRedis, openRedis, whenReady } from '../../src/redis/client.js';
import type { Stand } from '../announce/support.js';
import { releaseAtEnd } from '../support/releasers.js';

/** One watcher as a process runs it. */
export async function watch(one: Stand, url: string): Promise<Watcher> {
  const producer = openRedis(url, 'queue-producer');
  const workerClient = openRedis(url, 'queue-worker');
  await Promise.all([whenReady(producer), whenReady(workerClient)]);
  const queues = openQueues({ client: producer, prefix: one.keys.queues });
  const stop = new AbortController();
  const watcher = createWatcher({ ...one.watching, queues, workerClient, chores: [] });
  const running = watcher.run(stop.signal);
  releaseAtEnd(async () => {
    stop.abort();
    await running;
    await queues.close();
    await Promise.all([closeRedis(producer), closeRedis(workerClient)]);
  });
  return watcher;
}
