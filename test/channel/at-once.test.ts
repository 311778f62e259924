import { describe, expect, it } from 'vitest';
import { recover } from '../../src/channel/recover.js';
import { until } from '../support/wait.js';
import { bench, channelOn, FRESH_MS, policyOf } from './support.js';

describe('many at once', () => {
  it('5.14 two hundred failing batches over eight connections make one block and one transition', async () => {
    const env = await bench();
    const clients = await Promise.all(Array.from({ length: 8 }, () => env.open()));
    const calls = Array.from({ length: 200 }, (_, i) => {
      const channel = channelOn({ client: clients[i % 8]!, keys: env.keys });
      return channel.record('F'.repeat(1 + (i % 4)), undefined, { partition: `test/log/${i % 8}/0` });
    });
    const answers = await Promise.all(calls);
    expect(answers.filter(({ result }) => result.pushed === 1).length).toBe(1);
    expect(answers.every(({ result }) => result.pushed <= 1)).toBe(true);
    // Whoever left the fast path hands back what is not yet announced: always the same one.
    const epochs = new Set(answers.flatMap(({ outbox }) => outbox.map(({ epoch }) => epoch)));
    expect(epochs.size).toBe(1);
    expect(await env.client.llen(env.keys.channel('C')[4])).toBe(1);
    const counted = answers.reduce((sum, { result }) => sum + result.counted, 0);
    expect(counted).toBe(3);
  });

  it('of eight watchers that look at once, one makes the recovery', async () => {
    const env = await bench();
    const policy = policyOf({ forMs: 30 });
    await channelOn(env).record('FFF', policy);
    const clients = await Promise.all(Array.from({ length: 8 }, () => env.open()));
    await until(async () => (await env.client.exists(env.keys.blocked('C'))) === 0, { what: 'the end', intervalMs: 2 });
    const looks = await Promise.all(clients.map((client) => recover(client, env.keys, 'C', policy, FRESH_MS)));
    expect(looks.map(({ pushed }) => pushed).sort()).toEqual([0, 0, 0, 0, 0, 0, 0, 1]);
    const kinds = (await recover(env.client, env.keys, 'C', policy, FRESH_MS)).outbox.map(({ kind }) => kind);
    expect(kinds).toEqual(['blocked', 'recovered']);
  });

  it('8.08 watchers and failing workers together never break the order: blocked, recovered, relapsed, recovered …', async () => {
    const env = await bench();
    const policy = policyOf({ size: 1, rate: 100, forMs: 5 });
    const clients = await Promise.all(Array.from({ length: 6 }, () => env.open()));
    const end = performance.now() + 1_500;
    await Promise.all(
      clients.map(async (client, i) => {
        const channel = channelOn({ client, keys: env.keys });
        while (performance.now() < end) {
          if (i < 3) await recover(client, env.keys, 'C', policy, FRESH_MS);
          else await channel.record('F', policy, { partition: `test/log/${i}/0` });
        }
      }),
    );
    const told = (await recover(env.client, env.keys, 'C', policy, FRESH_MS)).outbox;
    expect(told.length).toBeGreaterThan(20);
    for (const [i, { kind, epoch, at }] of told.entries()) {
      expect(kind).toBe(i === 0 ? 'blocked' : i % 2 === 1 ? 'recovered' : 'relapsed');
      if (i > 0) expect(epoch).toBeGreaterThan(told[i - 1]!.epoch);
      if (i > 0) expect(at).toBeGreaterThanOrEqual(told[i - 1]!.at);
    }
  });
});
