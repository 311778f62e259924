import fc from 'fast-check';
import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';
import { mark } from '../../src/channel/agenda.js';
import { override } from '../../src/channel/override.js';
import { recover, settle } from '../../src/channel/recover.js';
import { ChannelNameError, canonicalChannel } from '../../src/domain/channel-name.js';
import { bench, C10, channelOn, FRESH_MS } from '../channel/support.js';
import { startCluster } from '../support/redis-cluster.js';

const HOSTILE = [
  '',
  '}',
  '}a',
  '{',
  '{}',
  '{}{x}',
  'a}b',
  'A}B{C',
  '\ud800',
  'a\udfffb',
  ' a',
  'a\u0000',
  'x'.repeat(129),
];
const ODD = ['a:b', '123', '0:1', '微信支付', 'stripe/eu-1', '🦊', 'a b', '*', '\\', "'", '"', 'e\u0301', '[x]', '%'];

describe('a channel on a cluster', () => {
  it('7.10 7.11 runs every script of a channel on its own node, whatever its name, and no two names share a key', async () => {
    const cluster = await startCluster();
    const env = await bench(cluster.url);
    const { client, keys } = env;
    const one = new Redis(cluster.nodes[0]!.url);
    onTestFinished(() => one.disconnect());
    const slotsOf = async (channel: string) =>
      new Set(await Promise.all(keys.channel(channel).map((key) => one.cluster('KEYSLOT', key))));

    for (const name of HOSTILE) expect(() => canonicalChannel(name), JSON.stringify(name)).toThrow(ChannelNameError);

    for (const name of [...ODD, ...Array.from({ length: 40 }, (_, i) => `channel-${i}`)].map(canonicalChannel)) {
      expect((await slotsOf(name)).size, name).toBe(1);
      const channel = channelOn(env, name);
      const { outbox } = await channel.record('FFF');
      expect(outbox, name).toMatchObject([{ kind: 'blocked', channel: name }]);
      const hand = { action: 'unblock', forMs: 0, actor: 'ann', note: '' } as const;
      expect((await override(client, keys, name, C10, FRESH_MS, hand)).pushed).toBe(1);
      const look = await recover(client, keys, name, C10, FRESH_MS);
      expect(look.outbox.length).toBe(2);
      expect(
        await settle(
          client,
          keys,
          name,
          look.outbox.map(({ epoch }) => epoch),
        ),
      ).toMatchObject({ left: 0 });
    }
    expect((await mark(client, keys, ODD)).length).toBe(ODD.length);

    const seen = new Map<string, string>();
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: 'binary', maxLength: 40 }),
        fc.constantFrom('', '{', '}', '{}', '\ud800'),
        async (text, extra) => {
          for (const raw of [text, text + extra, extra + text]) {
            let name: string;
            try {
              name = canonicalChannel(raw);
            } catch (error) {
              expect(error).toBeInstanceOf(ChannelNameError);
              continue;
            }
            expect((await slotsOf(name)).size).toBe(1);
            // As Redis stores it: bytes.
            const bytes = Buffer.from(keys.state(name)).toString('hex');
            expect(seen.get(bytes) ?? name).toBe(name);
            seen.set(bytes, name);
          }
        },
      ),
      { numRuns: 300 },
    );
    expect(seen.size).toBeGreaterThan(100);
  }, 60_000);
});
