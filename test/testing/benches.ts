import { onTestFinished } from 'vitest';
import { createAnnouncer } from '../../src/announce.js';
import { type Override, override } from '../../src/channel/override.js';
import type { Transition } from '../../src/domain/transition.js';
import { createFuseline, type Fuseline } from '../../src/fuseline.js';
import { createLogger, silent } from '../../src/observe/log.js';
import { createMetrics, uncounted } from '../../src/observe/metrics.js';
import { openClients } from '../../src/process/clients.js';
import type { Context } from '../../src/process/context.js';
import { Health } from '../../src/process/health.js';
import { outcomes } from '../../src/process/roles/outcomes.js';
import { recovery } from '../../src/process/roles/recovery.js';
import { openQueues } from '../../src/queue/queues.js';
import { type RedisClient, whenReady } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import { createLiveRules } from '../../src/rules/live.js';
import { setRules } from '../../src/rules/store.js';
import { loadSettings } from '../../src/settings/load.js';
import { createFakeFuseline } from '../../src/testing/fake.js';
import { sharedRedisUrl, uniquePrefix } from '../support/redis.js';
import { until } from '../support/wait.js';

/** One Fuseline under test, fake or real, and the few things for which they need different words. */
export type Bench = {
  fuse: Fuseline;
  /** What `on('transition')` told so far. */
  told: Transition[];
  /** Resolves when all that was published or done by hand is judged, and `fuse` knows. */
  settle(): Promise<void>;
  /** Resolves when `ms` have gone by and what was due in them has been told, as `accept` sees it. */
  pass(ms: number, accept: () => boolean): Promise<void>;
  block(channel: string, forMs?: number): Promise<void>;
  unblock(channel: string): Promise<void>;
};

/** A block and a hold of 1.5 s are short enough to wait for; what is only looked at lasts longer. */
export const RULES = {
  version: 1,
  mode: 'on',
  defaults: { window: 10, successRate: 70, block: '30m', hold: '1500ms' },
  channels: {
    quick: { block: '1500ms' },
    pay: { group: 'pay' },
    pay2: { group: 'pay' },
    seen: { mode: 'observe' },
    away: { mode: 'off' },
    picky: { ignore: ['CARD_*'] },
  },
  groups: { pay: { minVisible: 1 } },
};

export async function fakeBench(): Promise<Bench> {
  const fuse = createFakeFuseline({ rules: RULES });
  const told: Transition[] = [];
  fuse.on('transition', (transition) => told.push(transition));
  return {
    fuse,
    told,
    async settle() {},
    async pass(ms) {
      fuse.advance(ms);
    },
    async block(channel, forMs) {
      fuse.block(channel, forMs);
    },
    async unblock(channel) {
      fuse.unblock(channel);
    },
  };
}

/** The roles of the workers on the shared Redis, and the service's side, all in this process: processes of their own take seconds. */
export async function realBench(): Promise<Bench> {
  const [url, prefix] = [sharedRedisUrl(), uniquePrefix()];
  const { settings } = loadSettings({ flags: { redisUrl: url, prefix }, env: {}, cwd: '/' });
  const keys = new Keys(prefix);
  const clients = openClients(settings, silent);
  await Promise.all(clients.servers.map((server) => whenReady(server.client)));
  const client = clients.main;
  await setRules({ client, keys }, { expectedVersion: 0, document: RULES, actor: 'test' });
  const rules = await createLiveRules({ client, keys });
  const queues = openQueues({ client: clients.queueProducer, prefix: keys.queues });
  const announcer = createAnnouncer({ client, keys, queues, log: silent, count: uncounted });
  const stop = new AbortController();
  const shared = { settings, worker: `test-${prefix}`, keys, clients, rules, queues, health: new Health() };
  const context: Context = {
    ...shared,
    metrics: createMetrics(),
    onScrape: () => {},
    log: createLogger('silent', 'test'),
  };
  const running = [outcomes(context, stop.signal), recovery(context, stop.signal)];
  const fuse = await createFuseline({ url, prefix, logger: { info() {}, warn() {} } });
  const told: Transition[] = [];
  fuse.on('transition', (transition) => {
    if (!transition.channel.startsWith('marker-')) told.push(transition);
  });
  onTestFinished(async () => {
    await fuse.close();
    stop.abort(new Error('the test is over'));
    await Promise.all(running);
    await queues.close();
    await rules.close();
    await clients.close();
  });

  async function byHand(action: Override['action'], channel: string, forMs: number): Promise<void> {
    const [score] = await announcer.mark([channel]);
    const hand = { action, forMs, actor: 'test', note: '' };
    const { pushed, outbox } = await override(client, keys, channel, rules.policyFor(channel), 300_000, hand);
    await announcer.announce(channel, score!, { pushed, outbox });
  }

  let marker = 0;
  return {
    fuse,
    told,
    // The feed keeps order: once the reader has seen a marker that was told after everything else, it has seen everything else.
    async settle() {
      await fuse.flush();
      await until(() => isCommitted(client, keys), { what: 'all outcomes to be recorded' });
      await until(async () => (await client.zcount(keys.agenda, '-inf', 0)) === 0, {
        what: 'all transitions to be told',
      });
      marker += 1;
      const name = `marker-${marker}`;
      await byHand('block', name, 60_000);
      await until(() => fuse.isBlocked(name), { what: 'the reader to follow' });
    },
    async pass(ms, accept) {
      await until(accept, { what: `what is due within ${ms} ms`, timeoutMs: ms + 5_000 });
    },
    block: (channel, forMs = 0) => byHand('block', channel, forMs),
    unblock: (channel) => byHand('unblock', channel, 0),
  };
}

async function isCommitted(client: RedisClient, keys: Keys): Promise<boolean> {
  const shards = Object.keys(await client.hgetall(keys.shards)).filter((field) => /^\d+$/.test(field));
  for (const shard of shards) {
    if ((await client.exists(keys.outcomes(Number(shard)))) === 0) continue;
    const groups = (await client.xinfo('GROUPS', keys.outcomes(Number(shard)))) as unknown[][];
    if (groups.some((group) => group[group.indexOf('lag') + 1] !== 0)) return false;
    if (groups.length === 0) return false;
  }
  return shards.length > 0;
}
