import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { record } from '../../src/channel/record.js';
import { parseRulesValue } from '../../src/domain/rules.js';
import { createFuseline } from '../../src/fuseline.js';
import { createPublisher } from '../../src/publisher/index.js';
import { createReader } from '../../src/reader/index.js';
import { closeRedis, openRedis, type RedisClient, whenReady } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import { readPage } from '../keys/page.js';
import { startHttpReceiver } from '../support/http-receiver.js';
import { type RunningProcess, startProcess } from '../support/processes.js';
import { startRedis, uniquePrefix } from '../support/redis.js';
import { until } from '../support/wait.js';

type Seen = { types: Set<string>; expiry: Set<'yes' | 'no'>; fields: Set<string> };
const CLI = 'dist/src/cli/main.js';

/** Looks at every key there is, again and again, because some live for moments. */
function watchKeys(client: RedisClient) {
  const seen = new Map<string, Seen>();
  async function look(): Promise<void> {
    for (const key of await client.keys('*')) {
      const [type, ttl] = await Promise.all([client.type(key), client.pttl(key)]);
      if (type === 'none' || ttl === -2) continue;
      const about = seen.get(key) ?? { types: new Set(), expiry: new Set(), fields: new Set() };
      seen.set(key, about);
      about.types.add(type);
      about.expiry.add(ttl > 0 ? 'yes' : 'no');
      for (const field of await fieldsOf(client, key, type)) about.fields.add(field);
    }
  }
  return { seen, look };
}

async function fieldsOf(client: RedisClient, key: string, type: string): Promise<string[]> {
  if (key.includes('{fuseline}')) return [];
  if (type === 'hash') return client.hkeys(key);
  if (type !== 'stream') return [];
  const entries = await client.xrange(key, '-', '+');
  return entries.flatMap(([, fields]) => fields.filter((_field, index) => index % 2 === 0));
}

const DOCUMENT = (url: string) => ({
  version: 1,
  mode: 'on',
  defaults: { window: 10, successRate: 70, block: '1s', hold: '1s' },
  channels: {
    seen: { mode: 'observe' },
    long: { block: '30m', group: 'g' },
    timed: { window: { kind: 'time', span: '10s', slots: 10, minCalls: 5 }, dynamic: true },
    logged: { window: { kind: 'log', span: '10s' } },
    tested: { window: { kind: 'sequential', healthy: 95, failing: 50 } },
    trial: { halfOpen: { permits: 1, wait: '10m' } },
    alone: { minSources: 2, maxConsecutiveFailures: 3 },
    degraded: { levels: { cached: 99, blocked: 20 } },
  },
  groups: { g: { minVisible: 1 } },
  receivers: { ops: { type: 'webhook', url } },
  routes: [{ to: ['ops'] }],
});

it('keeps in Redis exactly the keys, types, expiries and fields that docs/keys.md tells', async () => {
  const { url } = await startRedis();
  const receiver = await startHttpReceiver();
  const folder = mkdtempSync(join(tmpdir(), 'fuseline-keys-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const prefix = uniquePrefix();
  const keys = new Keys(prefix);
  const client = openRedis(url, 'commands');
  onTestFinished(() => closeRedis(client));
  await whenReady(client);
  const { seen, look } = watchKeys(client);
  const document = DOCUMENT(receiver.url);
  const env = {
    ...{ FUSELINE_REDIS_URL: url, FUSELINE_PREFIX: prefix, FUSELINE_HTTP_PORT: '0', FUSELINE_LOG_LEVEL: 'warn' },
    FUSELINE_ALLOW_PRIVATE_RECEIVERS: 'true',
  };
  const cli = async (...args: string[]) => {
    const done: RunningProcess = startProcess(CLI, args, env);
    expect(await done.exited, done.lines.join('\n')).toMatchObject({ code: 0 });
    await look();
  };

  // Before any worker lives, what they would empty at once can be seen: a window, a block that nobody has told.
  const rules = parseRulesValue(document);
  if (!rules.ok) throw new Error(rules.problems.map(({ message }) => message).join());
  const failures = (position: string, n: number) => ({
    ...{ partition: 'direct/test', results: '0'.repeat(n), times: [], entries: [[position, 0, n]] as const },
    evidence: Array.from({ length: n }, () => '{"at":1}'),
  });
  for (const [channel, n] of Object.entries({
    window: 2,
    long: 4,
    timed: 2,
    logged: 2,
    tested: 2,
    alone: 4,
    degraded: 1,
  }))
    await record(client, keys, channel, rules.rules.policyFor(channel), 300_000, failures('1', n));
  await client.zadd(keys.agenda, 0, 'long');
  await look();

  writeFileSync(join(folder, 'rules.json'), JSON.stringify(document));
  await cli('rules', 'set', join(folder, 'rules.json'));
  writeFileSync(
    join(folder, 'rules.json'),
    JSON.stringify({ ...document, defaults: { ...document.defaults, window: 20 } }),
  );
  await cli('rules', 'set', join(folder, 'rules.json'));
  await cli('rules', 'rollback', '1');
  await cli('load', 'set', '0.9', '--for', '10m');
  startProcess(CLI, ['start'], env);

  const reader = createReader({ url, prefix });
  onTestFinished(() => reader.close());
  const fuse = await createFuseline({ url, prefix, logger: { info() {}, warn() {} } });
  onTestFinished(() => fuse.close());
  const told: string[] = [];
  reader.on('transition', ({ channel, kind }) => void told.push(`${channel} ${kind}`));
  const publisher = createPublisher({ url, prefix, source: 'test' });
  onTestFinished(() => publisher.close());
  for (let i = 0; i < 4; i += 1) {
    publisher.publish({ channel: 'A', success: false, code: 'E1', durationMs: 5 });
    publisher.publish({ channel: 'seen', success: false });
    publisher.publish({ channel: 'trial', success: false });
  }
  await publisher.flush();
  const entry = [
    'v',
    '1',
    'channel',
    'B',
    'success',
    '1',
    'durationMs',
    '3',
    'agoMs',
    '0',
    'code',
    'c',
    'source',
    's',
    'at',
    '1',
  ];
  await client.xadd(keys.outcomes(0), 'MAXLEN', '~', 1_000, '*', ...entry);
  await client.xadd(keys.outcomes(0), 'MAXLEN', '~', 1_000, '*', 'channel', 'B', 'success', 'perhaps');
  await cli('block', 'forever', '--for', 'forever', '--reason', 'test');
  await cli('unblock', 'open', '--for', '10m');

  const wanted = ['A blocked', 'A recovered', 'A held', 'seen observed', 'forever blocked'];
  const missing = () => wanted.filter((one) => !told.includes(one));
  await until(missing, { what: 'every transition', timeoutMs: 20_000, accept: (left) => left.length === 0 });
  await until(() => reader.isBlocked('long'), { what: 'the block that nobody had told' });
  await until(async () => (await fuse.admit('trial')).admitted, { what: 'a permit of the half-open channel' });
  const isThere = async () => {
    await look();
    const names = [...seen.keys()].map((key) => key.slice(prefix.length));
    return readPage().filter(({ pattern, reserved }) => !reserved && !names.some((name) => pattern.test(name)));
  };
  await until(isThere, { what: 'every key of the page', accept: (rows) => rows.length === 0 });
  await until(() => [...seen].some(([key, { fields }]) => key === keys.told('ops') && fields.has('c:A')), {
    what: 'the receiver to be told',
  });

  const problems = [...seen].flatMap(([key, about]) => problemsOf(key, prefix, about));
  expect(problems).toEqual([]);
}, 60_000);

function problemsOf(key: string, prefix: string, { types, expiry, fields }: Seen): string[] {
  if (!key.startsWith(prefix)) return [`${key} has no prefix`];
  const name = key.slice(prefix.length);
  const rows = readPage().filter(({ pattern }) => pattern.test(name));
  if (rows.length !== 1) return [`${name} has ${rows.length} rows in docs/keys.md`];
  const row = rows[0]!;
  const type = row.type.replace('sorted set', 'zset');
  const strange = [...fields].filter((field) => row.fields && !row.fields.some((one) => one.test(field)));
  return [
    ...(type === 'BullMQ'
      ? []
      : [...types].filter((one) => one !== type).map((one) => `${name} is a ${one}, not a ${type}`)),
    ...(row.expires === 'sometimes'
      ? []
      : [...expiry].filter((one) => one !== row.expires).map((one) => `${name} expires: ${one}, not ${row.expires}`)),
    ...strange.map((field) => `${name} has a field ${field}`),
  ];
}
