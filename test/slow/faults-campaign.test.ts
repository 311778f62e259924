import { expect, it } from 'vitest';
import type { Role, Worker } from '../process/workers.js';
import { openFleet, randomFrom, SHORT, seedOf, startLoad } from '../support/fleet.js';
import { sharedRedisUrl } from '../support/redis.js';
import { verifyAtEnd } from '../support/verifier.js';
import { sleep } from '../support/wait.js';

const LOAD_MS = 16_000;

it('windows equal the model’s, and every block is told once and ended once, while random ones of three workers are killed', async () => {
  const seed = seedOf('campaign');
  const random = randomFrom(seed);
  const redis = sharedRedisUrl();
  const fleet = await openFleet({ redis });
  const roles: Role[] = ['outcomes', 'recovery'];
  await fleet.start('alerts');
  const workers: Worker[] = await Promise.all([1, 2, 3].map(() => fleet.start(...roles)));
  const restarts: Promise<unknown>[] = [];
  const schedule: string[] = [];
  const begun = performance.now();
  let killAt = begun + 2_000;
  const running = startLoad(fleet.publisher, randomFrom(seed + 1));
  while (performance.now() - begun < LOAD_MS) {
    await sleep(10);
    if (performance.now() < killAt) continue;
    killAt += 1_500 + random() * 2_000;
    const victim = Math.floor(random() * workers.length);
    schedule.push(`${victim} at ${Math.round(performance.now() - begun)}`);
    workers[victim]!.kill('SIGKILL');
    const again = fleet.start(...roles).then((worker) => {
      workers[victim] = worker;
    });
    restarts.push(again);
  }
  expect(await running.stop()).toBe(true);
  await Promise.all(restarts);
  console.info(`campaign: killed ${schedule.join(', ')}`);
  const { prefix, receiver } = fleet;
  const verdict = await verifyAtEnd({ url: redis, prefix, policy: SHORT, receiver, merged: true }, 18_000);
  console.info('campaign:', JSON.stringify(verdict));
  expect(verdict.problems).toEqual([]);
  expect(verdict.channels).toBeGreaterThan(100);
  expect(verdict.blocks).toBeGreaterThan(3);
}, 60_000);
