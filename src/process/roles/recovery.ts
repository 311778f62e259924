import { createAnnouncer } from '../../announce.js';
import { lastMinute, liveWorkers } from '../../intake/last-minute.js';
import type { ChannelStats } from '../../intake/stats.js';
import { redisChores } from '../../recovery/housekeeping.js';
import { createLoadWatch } from '../../recovery/load-watch.js';
import { logChores } from '../../recovery/log-chores.js';
import { createWatcher } from '../../recovery/watcher.js';
import { sleep, withDeadline } from '../../redis/deadline.js';
import type { Context } from '../context.js';
import { StallWatch, watchProgress } from '../health.js';

/** A sweep is due every second, somewhere in the fleet. */
const STALL = { notReadyMs: 10_000, stuckMs: 30_000 };
const LOOK_EVERY_MS = 2_000;
const CALL_MS = 2_000;

/** Ends blocks and holds when their time has come, and tidies up. Any number may run: one of them wins each change. */
export async function recovery(context: Context, signal: AbortSignal): Promise<void> {
  const { settings, keys, clients, rules, queues, log } = context;
  const { count, set } = context.metrics;
  const workers = () => liveWorkers(clients.log, keys);
  const loadWatch = createLoadWatch({ client: clients.main, keys, rules, workers, log });
  const watcher = createWatcher({
    client: clients.main,
    keys,
    rules,
    announcer: createAnnouncer({ client: clients.main, keys, queues, log, count }),
    freshForMs: settings.freshFor,
    log,
    count,
    queues,
    workerClient: clients.queueWorker,
    seen: async () => busiestFirst(await lastMinute(clients.main, keys, await workers())),
    chores: [
      ...redisChores(clients.main, keys),
      ...logChores({ client: clients.log, keys, maxLen: settings.streamMaxLen }),
    ],
  });

  let fleet = { sweep: '', seenAt: performance.now() };
  let paused: string | undefined;

  /** The schedule makes one sweep for the whole fleet: another process may be the one that gets it, time and again. */
  async function lookAround(): Promise<void> {
    try {
      const sweep = (await queues.queue('sweep').lastDone()) ?? '';
      if (sweep !== fleet.sweep) fleet = { sweep, seenAt: performance.now() };
      set('fuseline_agenda_size', await withDeadline(clients.main.zcard(keys.agenda), CALL_MS, 'the agenda'));
      set('fuseline_groups_at_floor', await withDeadline(clients.main.hlen(keys.floors), CALL_MS, 'the floors'));
      paused = undefined;
    } catch (error) {
      paused = `Redis does not answer: ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  async function lookAroundUntilTheEnd(): Promise<void> {
    while (!signal.aborted) {
      await lookAround();
      await sleep(LOOK_EVERY_MS, signal);
    }
  }

  const watch = new StallWatch('no sweep was seen', STALL, performance.now());
  const progress = () => ({
    progressAt: Math.max(watcher.progress().lastSweepAt, fleet.seenAt),
    paused: clients.trouble() ?? paused ?? watcher.progress().trouble,
  });
  watchProgress(context.health, 'recovery', watch, progress, signal);

  await Promise.all([watcher.run(signal), loadWatch.run(signal), lookAroundUntilTheEnd()]);
}

function busiestFirst(counts: ReadonlyMap<string, ChannelStats>): string[] {
  const calls = ({ successes, failures }: ChannelStats) => successes + failures;
  return [...counts].sort(([, a], [, b]) => calls(b) - calls(a)).map(([channel]) => channel);
}
