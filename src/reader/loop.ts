import { backoffMs, DeadlineError } from '../redis/deadline.js';
import type { Bell } from './bell.js';
import type { Connections } from './connections.js';
import { checkChannels, type RefreshDeps, takeSnapshot } from './refresh.js';

/** A connection that greets nobody for this long is made anew: its other end may be gone without a word. */
const STUCK_MS = 10_000;

export type LoopOptions = {
  readonly deps: RefreshDeps;
  readonly connections: Connections;
  readonly bell: Bell;
  /** Channels to be looked at soon; emptied here. */
  readonly checks: Set<string>;
  readonly resyncMs: number;
  /** How long the first connection may take before Redis counts as away. */
  readonly graceMs: number;
  /** True when a snapshot must not wait for its time, for example after a reconnect; told once. */
  readonly isHurried: () => boolean;
  readonly onFresh: (asOf: number) => void;
  readonly onAway: (error: unknown) => void;
};

/** Keeps the views fresh until the signal: a snapshot every `resyncMs`, give or take a fifth, and checks in between. Never rejects. */
export async function keepFresh(options: LoopOptions, signal: AbortSignal): Promise<void> {
  const { bell, checks, resyncMs } = options;
  let dueAt = performance.now();
  let failures = 0;
  let connection = { unreadySince: performance.now(), wasReady: false };
  while (!signal.aborted) {
    connection = await readiness(options, connection);
    if (connection.unreadySince > 0) {
      await bell.wait(100);
      continue;
    }
    const isDue = options.isHurried() || performance.now() >= dueAt;
    const error = isDue || checks.size > 0 ? await refresh(options, isDue) : undefined;
    if (signal.aborted) return;
    if (error !== undefined) {
      options.onAway(error);
      checks.clear();
      dueAt = performance.now() + backoffMs(failures++, 100, resyncMs);
    } else if (isDue) {
      failures = 0;
      dueAt = performance.now() + resyncMs * (0.8 + 0.4 * Math.random());
    }
    if (checks.size === 0) await bell.wait(dueAt - performance.now());
  }
}

/** One snapshot, or one check of what was asked for. Returns the error instead of throwing it. */
async function refresh({ deps, connections, checks, onFresh }: LoopOptions, isDue: boolean): Promise<unknown> {
  const channels = [...checks];
  checks.clear();
  try {
    if (isDue) onFresh(await takeSnapshot(deps));
    else await checkChannels(deps, channels);
    return undefined;
  } catch (error) {
    // The commands that got no answer would pile up behind a frozen server.
    if (error instanceof DeadlineError && connections.own) connections.commands.disconnect(true);
    return error ?? new Error('unknown');
  }
}

type Readiness = { /** `performance.now()`; 0: ready. */ unreadySince: number; wasReady: boolean };

async function readiness({ connections, graceMs, onAway }: LoopOptions, last: Readiness): Promise<Readiness> {
  const { commands, own } = connections;
  if (commands.status === 'ready') return { unreadySince: 0, wasReady: true };
  const now = performance.now();
  const unreadySince = last.unreadySince || now;
  if (last.wasReady || now - unreadySince > graceMs) onAway(new Error(`the connection is ${commands.status}`));
  if (!own || now - unreadySince < STUCK_MS) return { unreadySince, wasReady: last.wasReady };
  commands.disconnect(true);
  return { unreadySince: now, wasReady: true };
}
