import { createAlerts } from '../../notify/alerts.js';
import type { Context } from '../context.js';
import { StallWatch, watchProgress } from '../health.js';
import { counterDeltas } from '../scrape.js';

/** Jobs wait and none is being worked on for this long. What waits for a receiver's back-off does not count. */
const STALL = { notReadyMs: 30_000, stuckMs: 30_000 };

/** Hands alerts out and delivers them. Any number may run: each message is one job. */
export async function alerts(context: Context, signal: AbortSignal): Promise<void> {
  const { settings, keys, clients, rules, queues, log } = context;
  const running = createAlerts({
    queues,
    workerClient: clients.queueWorker,
    redis: clients.main,
    keys,
    rules,
    log,
    allowPrivate: settings.allowPrivateReceivers,
  });

  const watch = new StallWatch('alerts wait and none is being delivered', STALL, performance.now());
  const progress = () => {
    const { lastProgressAt, paused } = running.status();
    return { progressAt: lastProgressAt, paused: clients.trouble() ?? paused };
  };
  watchProgress(context.health, 'alerts', watch, progress, signal);

  const perReceiver = new Map<string, ReturnType<typeof counterDeltas>>();
  context.onScrape(() => {
    for (const [receiver, counts] of Object.entries(running.status().counts)) {
      const deltas =
        perReceiver.get(receiver) ??
        counterDeltas((result, by) => context.metrics.count('fuseline_alerts_total', { receiver, result }, by));
      perReceiver.set(receiver, deltas);
      deltas(counts);
    }
  });

  await running.run(signal);
}
