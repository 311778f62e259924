import { expect, it } from 'vitest';
import { createReader } from '../../src/reader/reader.js';
import { createLiveRules } from '../../src/rules/live.js';
import { setRules } from '../../src/rules/store.js';
import { place } from '../cli/place.js';
import { fuseline, fuselineHere } from '../cli/run.js';
import { metric, startRoles, untilReady } from '../process/workers.js';
import { startHttpReceiver } from '../support/http-receiver.js';
import { sharedRedisUrl } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';
import { until } from '../support/wait.js';

// Slow for its processes: two that run all roles, and the commands beside them.
it('a group that runs out of channels is told once by two fleets of workers, shown by readers and by fuseline groups', async () => {
  const { prefix, keys, client, env } = place();
  const http = await startHttpReceiver();
  const document = {
    mode: 'on',
    defaults: { window: 5, successRate: 70, block: '30m', hold: '30m' },
    channels: { ALIPAY: { group: 'pay' }, WECHAT: { group: 'pay', block: '10m' }, SMS: { group: 'sms' } },
    groups: { pay: { minVisible: 1 } },
    receivers: { ops: { type: 'webhook', url: http.url } },
    routes: [{ match: { group: 'pay' }, to: ['ops'] }],
  };
  await setRules({ client, keys }, { expectedVersion: 0, document, actor: 't' });
  const all = ['outcomes', 'recovery', 'alerts'];
  const workers = [1, 2].map(() => startRoles(all, { ...env, FUSELINE_ALLOW_PRIVATE_RECEIVERS: 'true' }));
  await Promise.all(workers.map(untilReady));
  const rules = await createLiveRules({ client, keys });
  const reader = createReader({ url: sharedRedisUrl(), prefix, rules });
  releaseAtEnd(async () => {
    await reader.close();
    await rules.close();
  });
  await reader.ready;

  const failing = (name: string) => Array.from({ length: 5 }, () => JSON.stringify({ channel: name, success: false }));
  await fuseline(['publish'], env, [...failing('ALIPAY'), ...failing('WECHAT'), ...failing('SMS')].join('\n'));
  const types = () => http.requests.map(({ body }) => JSON.parse(body).type as string).sort();
  const expected = ['channel.blocked', 'channel.blocked', 'group.floor'];
  await until(types, { what: 'three alerts', accept: (list) => list.length >= 3, timeoutMs: 20_000 });
  const news = http.requests.map(({ body }) => JSON.parse(body)).find(({ type }) => type === 'group.floor');
  expect(news.group).toMatchObject({ name: 'pay', floor: 1, members: 2, visible: 0, shown: [{ channel: 'WECHAT' }] });
  expect(news.text).toContain('Group pay runs out of channels: WECHAT is shown although blocked');
  await until(() => reader.visible(['ALIPAY', 'WECHAT']), {
    what: 'the reader to show the same',
    accept: (list) => list.join() === 'WECHAT',
  });

  const groups = JSON.parse((await fuselineHere(['groups', '--json'], env)).out);
  expect(groups).toMatchObject([
    { name: 'pay', floor: 1, visible: 0, bites: true, shown: [{ channel: 'WECHAT', byHand: false }] },
    { name: 'sms', floor: 0, visible: 0, bites: false, shown: [] },
  ]);
  expect(Date.parse(news.group.shown[0].until)).toBe(groups[0].shown[0].until);
  const { out } = await fuselineHere(['groups'], env);
  expect(out).toMatch(
    /^pay +0 of 2 +1 +ALIPAY \(blocked\), WECHAT \(blocked\) +TOO FEW LEFT, .*: WECHAT until .* \(9m/m,
  );
  await until(() => metric(workers[0]!, 'fuseline_groups_at_floor'), { what: 'the gauge', accept: (n) => n === 1 });

  // Brought back by hand: enough are left, and nobody blocked by hand is shown.
  await fuseline(['unblock', 'ALIPAY'], env);
  await until(() => client.hget(keys.floors, 'pay'), {
    what: 'the floor to bite no more',
    accept: (text) => JSON.parse(text ?? '{}').quietAt > 0,
  });
  expect((await fuselineHere(['groups'], env)).out).toMatch(/^pay +1 of 2 +1 +ALIPAY, WECHAT \(blocked\)$/m);
  await until(types, { what: 'the recovery', accept: (list) => list.length >= 4 });
  expect(types()).toEqual([...expected, 'channel.recovered'].sort());
}, 60_000);
