import { expect, it } from 'vitest';
import { fuseline } from '../cli/run.js';
import { openFleet, SHORT } from '../support/fleet.js';
import { startProcess } from '../support/processes.js';
import { sharedRedisUrl } from '../support/redis.js';
import { verifyAtEnd } from '../support/verifier.js';

/** Ended by hand, so that however slowly a worker starts again, nothing is over before it can be told. */
const POLICY = { ...SHORT, block: { ...SHORT.block, forMs: 1_800_000 } };
const RULES = { defaults: { window: 10, successRate: 70, block: '30m', hold: '1s' } };
type Point = 'before-record' | 'mid-batch' | 'after-record' | 'after-mark' | 'after-announce' | 'before-commit';
const POINTS: Point[][] = [
  ['before-record', 'mid-batch', 'after-record'],
  ['after-mark', 'after-announce', 'before-commit'],
];

async function dieAt(point: Point) {
  const redis = sharedRedisUrl();
  const { start, publisher, prefix, receiver, env } = await openFleet({ redis, rules: RULES });
  // Brings the rules, which the worker that dies finds in Redis.
  await start('recovery', 'alerts');
  const dying = startProcess('test/faults/worker-that-dies.mjs', [JSON.stringify({ url: redis, prefix, point })]);
  await dying.waitForLine(/reading/);
  for (const channel of ['window', 'ALIPAY', 'sms/one', 'healthy']) {
    if (channel !== 'healthy') for (const success of [false, true, true]) publisher.publish({ channel, success });
    publisher.publish({ channel, success: true });
  }
  for (const channel of ['ALIPAY', 'sms/one']) {
    for (let i = 0; i < 4; i += 1) publisher.publish({ channel, success: false, code: 'TIMEOUT' });
  }
  const published = await publisher.flush();
  const exit = await dying.exited;

  await start('outcomes');
  const end = { url: redis, prefix, policy: POLICY, receiver };
  await receiver.waitForRequests(2, { timeoutMs: 20_000 });
  const blocked = await verifyAtEnd(end, 5_000);
  for (const channel of ['ALIPAY', 'sms/one']) await fuseline(['unblock', channel], env);
  await receiver.waitForRequests(6, { timeoutMs: 20_000 });
  const verdict = await verifyAtEnd(end, 5_000);
  verdict.problems.push(...blocked.problems);
  const { problems, channels, outcomes, blocks, alerts } = verdict;
  return { published, signal: exit.signal, problems, channels, outcomes, blocks, alerts };
}

it.each(POINTS)(
  'kill -9 of an outcome worker at %s, %s and %s loses no outcome, counts none twice, and a block decided just before is told once',
  async (...points) => {
    const results = await Promise.all(points.map(async (point) => [point, await dieAt(point)] as const));
    const right = { published: true, signal: 'SIGKILL', problems: [], channels: 4, outcomes: 21, blocks: 2, alerts: 6 };
    expect(Object.fromEntries(results)).toEqual(Object.fromEntries(points.map((point) => [point, right])));
  },
  60_000,
);
