import { DEFAULT_POLICY } from '../../src/domain/policy.js';
import type { Receiver, Route } from '../../src/domain/receiver.js';
import { type Alerts, type AlertsOptions, createAlerts } from '../../src/notify/alerts.js';
import { closeRedis, openRedis, whenReady } from '../../src/redis/client.js';
import type { LiveRules } from '../../src/rules/port.js';
import { type QueueHarness, queueHarness } from '../queue/harness.js';
import { sharedRedisUrl } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';

export type Rules = LiveRules & { set(receivers: Receiver[], routes?: Route[]): void };

export function receiver(name: string, url: string, more: Partial<Receiver> = {}): Receiver {
  return { name, type: 'webhook', url, locale: 'en', timeZone: 'UTC', mentions: [], timeoutMs: 2_000, ...more };
}

/** Rules as a value: these receivers, every one of which gets everything unless routes say otherwise. */
export function rulesWith(...first: Receiver[]): Rules {
  let receivers = first;
  let routes: Route[] | undefined;
  const listeners = new Set<() => void>();
  return {
    version: () => 1,
    policyFor: (channel) => ({
      ...DEFAULT_POLICY,
      ...(channel.startsWith('pay-') && { group: 'pay' }),
      ...(channel.startsWith('by-hand-') && { mode: 'on' as const, isReleasedByHand: true }),
    }),
    minVisible: () => 0,
    namedChannels: () => [],
    patternGroups: () => new Set(),
    receivers: () => receivers,
    routes: () => routes ?? [{ match: {}, to: receivers.map(({ name }) => name) }],
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    close: async () => {},
    set(next, nextRoutes) {
      receivers = next;
      routes = nextRoutes;
      for (const listener of listeners) listener();
    },
  };
}

export type Logged = { level: string; fields: Record<string, unknown>; text: string };

export type AlertsHarness = QueueHarness & { alerts: Alerts; rules: Rules; logged: Logged[]; stop(): Promise<void> };

/** The alert flow as a process runs it, on a real Redis. `beside` runs a second one on the queues of a first. */
export async function startAlerts(
  rules: Rules,
  more: Partial<AlertsOptions> & { url?: string; toldUrl?: string; beside?: QueueHarness } = {},
): Promise<AlertsHarness> {
  const { url = sharedRedisUrl(), toldUrl = url, beside, ...options } = more;
  const redis = openRedis(toldUrl, 'commands');
  releaseAtEnd(() => closeRedis(redis));
  const harness = beside ?? queueHarness(url);
  await whenReady(redis);
  const logged: Logged[] = [];
  const line = (level: string) => (fields: unknown, text?: string) =>
    void logged.push({ level, fields: fields as Record<string, unknown>, text: text ?? '' });
  const log = {
    debug: line('debug'),
    info: line('info'),
    warn: line('warn'),
    error: line('error'),
  } as AlertsOptions['log'];
  const { queues, consumer: workerClient, keys } = harness;
  const retry = { attempts: 50, firstMs: 50, mostMs: 200 };
  const alerts = createAlerts({
    queues,
    workerClient,
    redis,
    keys,
    rules,
    log,
    allowPrivate: true,
    env: {},
    retry,
    ...options,
  });
  const ending = new AbortController();
  const running = alerts.run(ending.signal);
  const stop = async () => {
    ending.abort();
    await running;
  };
  releaseAtEnd(stop);
  return { ...harness, alerts, rules, logged, stop };
}
