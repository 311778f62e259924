import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { createFuseline, type Fuseline } from '../../src/fuseline.js';
import { ChannelBlockedError } from '../../src/guard/errors.js';
import { closeRedis, openRedis, whenReady } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import { setRules } from '../../src/rules/store.js';
import { openFleet } from '../support/fleet.js';
import { startProcess } from '../support/processes.js';
import { sharedRedisUrl, uniquePrefix } from '../support/redis.js';
import { sleep, until } from '../support/wait.js';

const url = sharedRedisUrl();

async function openClient() {
  const client = openRedis(url, 'commands');
  onTestFinished(() => closeRedis(client));
  await whenReady(client);
  return client;
}

/** A third party that counts who is with it at the same moment. Calls take 20 ms, or never end once it hangs. */
async function startThirdParty() {
  const inside = new Set<IncomingMessage>();
  const seen = { most: 0, total: 0, pids: new Set<number>() };
  let isHanging = false;
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    inside.add(request);
    seen.total += 1;
    seen.most = Math.max(seen.most, inside.size);
    seen.pids.add(pidOf(request));
    // Before the answer: whoever has it may give the permit to the next one at once.
    const leave = () => inside.delete(request);
    response.on('close', leave);
    if (isHanging) return;
    setTimeout(() => {
      leave();
      response.end('ok');
    }, 20);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    inside: () => [...inside].map(pidOf),
    hang(on: boolean) {
      isHanging = on;
    },
  };
}

function pidOf(request: IncomingMessage): number {
  return Number(request.headers['x-pid']);
}

it('1.28 lends exactly three permits to eight processes, and each comes back at its deadline from a process that was killed with it', async () => {
  const [client, prefix, thirdParty] = [await openClient(), uniquePrefix(), await startThirdParty()];
  const keys = new Keys(prefix);
  const document = { mode: 'on', defaults: { halfOpen: { permits: 3 } } };
  await setRules({ client, keys }, { expectedVersion: 0, document, actor: 'test' });
  const now = Date.now();
  const ends = now + 300_000;
  const fields = {
    v: 1,
    state: 'half-open',
    epoch: now,
    since: now,
    until: ends,
    keyUntil: ends,
    hold: 0,
    incident: now,
  };
  await client.hset(keys.state('A'), { ...fields, trips: 1, block: now, blockedAt: now, step: 0, good: 0, last: ends });
  await client.set(keys.blocked('A'), 'half-open', 'PXAT', ends);
  await client.zadd(keys.agenda, 0, 'A');

  const processes = Array.from({ length: 8 }, () =>
    startProcess('test/guard/tries.mjs', [url, prefix, thirdParty.url]),
  );
  await Promise.all(processes.map((one) => one.waitForLine(/^trying/, { timeoutMs: 30_000 })));
  await until(() => thirdParty.seen.total > 100 && thirdParty.seen.pids.size > 3, {
    what: 'a hundred calls by several',
  });

  thirdParty.hang(true);
  const holders = await until(() => thirdParty.inside(), {
    what: 'three who hang',
    accept: ({ length }) => length === 3,
  });
  const killedAt = performance.now();
  const killed = processes.filter(({ pid }) => holders.includes(pid));
  for (const one of killed) one.kill('SIGKILL');
  await Promise.all(killed.map(({ exited }) => exited));
  thirdParty.hang(false);
  expect(killed).toHaveLength(3);

  const { seen } = thirdParty;
  const before = seen.total;
  expect(seen.most).toBe(3);
  seen.most = 0;
  await until(() => seen.total > before, { what: 'the first permit to come back' });
  // They are lent for the timeout of 1.5 s and a second; a part of it was over when their holders were killed.
  expect(performance.now() - killedAt).toBeGreaterThan(1_000);
  await until(() => seen.most >= 3, { what: 'all three of them at work again' });
  await until(() => seen.total > before + 50, { what: 'fifty calls by those who are left' });
  expect(seen.most).toBe(3);
}, 60_000);

const RULES = {
  defaults: { window: 10, successRate: 70, hold: '10m' },
  channels: {
    good: { block: { for: '1s', growth: 3 }, halfOpen: { permits: 1, close: 2, wait: '1m' } },
    bad: { block: { for: '1s', growth: 3 }, halfOpen: { permits: 1, close: 2, wait: '1m' } },
    ramp: { block: '1s', halfOpen: { percent: 20, close: 1, ramp: [60], wait: '1m' } },
    silent: { block: '1s', halfOpen: { permits: 1, wait: '1s' } },
    strict: { block: '1s', halfOpen: { permits: 1, wait: '1s', atDeadline: 'open' } },
  },
};

it('1.30 tells the whole story of half-open, with workers and services in processes of their own', async () => {
  const client = await openClient();
  const fleet = await openFleet({ redis: url, rules: RULES });
  await fleet.start();
  const keys = new Keys(fleet.prefix);
  const fuse = await createFuseline({ url, prefix: fleet.prefix, logger: { info() {}, warn() {} } });
  onTestFinished(() => fuse.close());
  const told: string[] = [];
  fuse.on(
    'transition',
    ({ channel, kind, from, to, reason }) => void told.push(`${channel}: ${kind} ${from} ${to} ${reason}`),
  );
  const stateOf = (channel: string, state: string) =>
    until(() => fuse.stateOf(channel).state === state, { what: `${channel} to be ${state}`, timeoutMs: 20_000 });
  const exists = (channel: string) => client.exists(keys.blocked(channel));

  for (const channel of Object.keys(RULES.channels))
    for (let i = 0; i < 4; i += 1) fuse.publish({ channel, success: false, code: 'E1' });
  await stateOf('ramp', 'half-open');

  // Another process shows the channel to the very same users.
  const other = startProcess('test/guard/shown-to.mjs', [url, fleet.prefix, 'ramp', '2000']);
  const there = (await other.waitForLine(/^shown to /, { timeoutMs: 30_000 })).slice('shown to '.length).split(',');
  const users = Array.from({ length: 2_000 }, (_, i) => `user-${i}`);
  const shown = () => users.filter((key) => fuse.visible(['ramp', 'other'], { key }).includes('ramp'));
  const first = shown();
  expect(there).toEqual(first);
  expect(first.length).toBeGreaterThan(300);

  // Good outcomes close it, step by step; the key, for programs that know nothing else, stays until then.
  await tryOnce(fuse, 'ramp', true, first[0]);
  await until(() => fuse.stateOf('ramp').trial?.step === 1, { what: 'the next step' });
  const more = shown();
  expect(more.length).toBeGreaterThan(1_000);
  expect(first.every((key) => more.includes(key))).toBe(true);
  expect([await exists('ramp'), fuse.isBlocked('ramp')]).toEqual([1, true]);
  await tryOnce(
    fuse,
    'ramp',
    true,
    more.find((key) => !first.includes(key)),
  );
  await stateOf('ramp', 'closed');
  expect(await exists('ramp')).toBe(0);

  await stateOf('good', 'half-open');
  await tryOnce(fuse, 'good', true);
  expect([await exists('good'), await client.get(keys.blocked('good')), fuse.isBlocked('good')]).toEqual([
    1,
    'half-open',
    true,
  ]);
  await tryOnce(fuse, 'good', true);
  await stateOf('good', 'closed');
  expect(await exists('good')).toBe(0);

  // A bad one blocks it again, three times as long as before.
  await stateOf('bad', 'half-open');
  await tryOnce(fuse, 'bad', false);
  await stateOf('bad', 'open');
  const { since, until: ends, trips } = fuse.stateOf('bad');
  expect([trips, ends - since, await client.get(keys.blocked('bad'))]).toEqual([2, 3_000, 'open']);
  await expect(fuse.guard('bad', () => 1, { success: () => true })).rejects.toBeInstanceOf(ChannelBlockedError);

  const wanted = [
    'silent: recovered half-open closed half-open-timeout',
    'strict: relapsed half-open open half-open-timeout',
  ];
  await until(() => wanted.every((one) => told.includes(one)), {
    what: 'what comes of too few outcomes',
    timeoutMs: 20_000,
  });
  const of = (channel: string) =>
    told.filter((one) => one.startsWith(`${channel}: `)).map((one) => one.slice(channel.length + 2));
  const begun = ['blocked closed open success-rate', 'half-open open half-open expired'];
  expect(of('good')).toEqual([...begun, 'recovered half-open closed half-open-success']);
  expect(of('bad').slice(0, 3)).toEqual([...begun, 'relapsed half-open open half-open-failure']);
  expect(of('ramp')).toEqual([
    ...begun,
    'half-open half-open half-open ramp',
    'recovered half-open closed half-open-success',
  ]);

  // People hear of blocks and of their ends, not of trials.
  const heard = () =>
    fleet.receiver.requests.map(({ body }) => JSON.parse(body)).map(({ type, channel }) => `${channel} ${type}`);
  await until(
    () =>
      ['good channel.recovered', 'bad channel.relapsed', 'silent channel.recovered'].every((one) =>
        heard().includes(one),
      ),
    {
      what: 'the alerts',
      timeoutMs: 20_000,
    },
  );
  expect(heard().filter((one) => one.includes('half-open'))).toEqual([]);
}, 90_000);

/** One guarded call that goes through: asked again while the permit of the one before is on its way back. */
async function tryOnce(fuse: Fuseline, channel: string, isGood: boolean, key?: string): Promise<void> {
  const call = () => fuse.guard(channel, () => isGood, { success: (good) => good, key, timeout: 1_000 });
  for (let left = 100; ; left -= 1) {
    const refused = await call().then(
      () => undefined,
      (error: unknown) => error,
    );
    if (refused === undefined) break;
    if (!(refused instanceof ChannelBlockedError) || left === 0) throw refused;
    await sleep(25);
  }
  await fuse.flush();
}
