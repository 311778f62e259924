import { describe, expect, it } from 'vitest';
import { ClockedChannel } from './clocked-channel.js';
import { bench, C10, FRESH_MS, START, Twin } from './support.js';

describe('a channel that a person keeps in use', () => {
  it('is not judged meanwhile; the beginning and the end are told, each once, and are of no block', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFF');
    await channel.byHand('unblock', 10_000);
    expect(channel.told.slice(1)).toMatchObject([
      { kind: 'recovered', reason: 'manual' },
      { kind: 'forced', to: 'closed', until: channel.now + 10_000, actor: 'ann', block: 0, trips: 0 },
    ]);
    channel.pass(5_000);
    expect(await channel.record('FFF')).toMatchObject({ overridden: 3, blocked: false });
    channel.pass(6_000);
    await channel.recover();
    await channel.recover();
    expect(channel.told.slice(3)).toMatchObject([
      { kind: 'force-ended', reason: 'expired', at: START + 10_000, block: 0 },
    ]);
    expect(channel.told[3]).not.toHaveProperty('actor');
  });

  it('and that another program blocks all the same is blocked: the end of the force is then no news, and keeps nobody busy', async () => {
    const env = await bench();
    const channel = new ClockedChannel(
      env.client as ConstructorParameters<typeof ClockedChannel>[0],
      env.keys,
      'C',
      FRESH_MS,
    );
    await channel.override(C10, START, 'unblock', 60_000);
    await env.client.set(env.keys.blocked('C'), 'x', 'PXAT', START + 120_000);
    expect(await channel.recover(C10, START + 1_000)).toBe(START + 60_000);
    expect(await channel.recover(C10, START + 60_000)).toBe(START + 120_000);
    expect(await channel.dueAfterSettling(START + 60_000)).toBe(START + 120_000);
    await channel.recover(C10, START + 120_000);
    const told = await channel.takeTransitions();
    expect(told.map(({ kind, to }) => `${kind} ${to}`)).toEqual(['forced closed', 'blocked open', 'recovered closed']);
  });
});
