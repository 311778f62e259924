import { createAnnouncer } from '../../announce.js';
import { createIntake } from '../../intake/intake.js';
import { createLoadedPolicies } from '../../intake/loaded-policies.js';
import { createRecording } from '../../intake/recording.js';
import { Stats, writeStats } from '../../intake/stats.js';
import type { Context } from '../context.js';
import { StallWatch, waiting, watchProgress } from '../health.js';
import { openLogReader } from '../log-reader.js';
import { counterDeltas } from '../scrape.js';

/** Entries wait and none is committed for this long: the consumer is stuck, however connected it is. */
const STALL = { notReadyMs: 30_000, stuckMs: 30_000 };

/** Reads outcomes, judges channels, announces what changed. Any number may run: they share the log. */
export async function outcomes(context: Context, signal: AbortSignal): Promise<void> {
  const { settings, keys, clients, rules, queues, worker, log } = context;
  const { count, set } = context.metrics;
  // At once: nobody may take this process for ready before the log is open.
  context.health.watch('outcomes', () => waiting('opening the outcome log'));
  const reader = await openLogReader(context);
  const stats = new Stats();
  const policies = createLoadedPolicies({ client: clients.main, keys, rules, log, set });
  // Before the first outcome: all workers judge by the same numbers.
  await policies.refresh();
  const { recordFile, recordFileMaxBytes: maxBytes, recordFiles: files, logClockLead: logClockLeadMs } = settings;
  const recording =
    recordFile === undefined
      ? undefined
      : createRecording({ path: recordFile, maxBytes, files, logClockLeadMs, log, count });
  const intake = createIntake({
    client: clients.main,
    keys,
    reader,
    rules: policies,
    announcer: createAnnouncer({ client: clients.main, keys, queues, log, count }),
    stats,
    freshForMs: settings.freshFor,
    logClockLeadMs,
    maxChannels: settings.maxChannels,
    ...(recording === undefined ? {} : { recording }),
    log,
    count,
  });

  const watch = new StallWatch('outcomes wait in the log and none was recorded', STALL, performance.now());
  const progress = () => {
    const { lag, lastProgressAt, paused, owned } = reader.progress();
    return {
      progressAt: lag > 0 ? lastProgressAt : performance.now(),
      paused: clients.trouble() ?? paused ?? intake.paused(owned),
    };
  };
  watchProgress(context.health, 'outcomes', watch, progress, signal);

  const logEvents = counterDeltas((event, by) => count('fuseline_log_events_total', { event }, by));
  context.onScrape(() => {
    const { lag, owned, counters } = reader.progress();
    set('fuseline_log_lag', lag);
    set('fuseline_log_shards_owned', owned.length);
    logEvents(counters);
  });

  try {
    const tellsLoad = () => rules.hasDynamic();
    await Promise.all([
      intake.run(signal),
      policies.run(signal),
      writeStats(clients.main, keys, worker, stats, signal, tellsLoad),
    ]);
  } finally {
    await recording?.close();
  }
}
