import { expect, it } from 'vitest';
import { fuseline } from '../cli/run.js';
import { openFleet, randomFrom, SHORT, seedOf } from '../support/fleet.js';
import { type RunningProcess, startProcess } from '../support/processes.js';
import { sharedRedisUrl } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';
import { verifyAtEnd } from '../support/verifier.js';
import { sleep } from '../support/wait.js';

const SHARED = ['shared', 'shared/two'];

it('processes in direct mode that are killed, workers and an operator on the same channels tell one story, each part of it once', async () => {
  const seed = seedOf('direct');
  const random = randomFrom(seed);
  const redis = sharedRedisUrl();
  const fleet = await openFleet({ redis });
  await fleet.start('outcomes', 'recovery', 'alerts');
  const startDirect = (n: number): RunningProcess =>
    startProcess('test/faults/direct-mode.mjs', [redis, fleet.prefix, String((seed % 100_000) + n), ...SHARED]);
  const services = [0, 1].map(startDirect);
  const timer = setInterval(() => {
    for (const channel of [...SHARED, 'published']) fleet.publisher.publish({ channel, success: random() >= 0.02 });
  }, 20);
  releaseAtEnd(async () => clearInterval(timer));
  await Promise.all(services.map((one) => one.waitForLine(/judging/)));
  for (let round = 0; round < 3; round += 1) {
    await sleep(1_000 + random() * 800);
    const victim = Math.floor(random() * services.length);
    services[victim]!.kill('SIGKILL');
    const channel = SHARED[round % 2]!;
    expect(await fuseline(['block', channel, '--for', '2s'], fleet.env)).toMatchObject({ code: 0 });
    services[victim] = startDirect(10 + round);
    if (round % 2 === 1) expect(await fuseline(['unblock', channel], fleet.env)).toMatchObject({ code: 0 });
  }
  const said = services.flatMap(({ lines }) => lines);
  for (const one of services) one.kill('SIGKILL');
  clearInterval(timer);
  expect(await fleet.publisher.flush()).toBe(true);
  const { prefix, receiver } = fleet;
  const end = { url: redis, prefix, policy: SHORT, receiver, merged: true, byHand: SHARED };
  const verdict = await verifyAtEnd(end, 15_000);
  console.info('direct:', JSON.stringify(verdict));
  expect(verdict.problems).toEqual([]);
  expect(verdict.transitions).toBeGreaterThan(4);
  expect(said.filter((line) => line.startsWith('error'))).toEqual([]);
}, 60_000);
