import { describe, expect, it } from 'vitest';
import { bench, type PolicyInput, policyOf, START, Twin } from './support.js';

const LEVELS = [
  { name: 'fallback', line: 4_000 },
  { name: 'cached', line: 6_000 },
];

/** Below 60 % `cached`, below 40 % `fallback`, below 20 % blocked; by the last 20 calls. */
function levelled(more: PolicyInput = {}) {
  return policyOf({ size: 20, rate: 20, levels: LEVELS, ...more });
}
const POLICY = levelled();

/** What was told of levels: before and after. */
function changes(channel: Twin): string[] {
  return channel.told.filter(({ kind }) => kind === 'level').map(({ before, level }) => `${before} → ${level}`);
}

describe('levels of degradation, in script and model alike', () => {
  it('follow the rate down, strictly below each line, until the channel is blocked', async () => {
    const channel = new Twin(await bench());
    const tell = async (failures: number) => {
      const { blocked } = await channel.record('F'.repeat(failures), POLICY);
      return [...changes(channel).slice(-1), blocked];
    };
    expect(await tell(8)).toEqual([false]);
    expect(await tell(1)).toEqual([' → cached', false]);
    expect(await tell(3)).toEqual([' → cached', false]);
    expect(await tell(1)).toEqual(['cached → fallback', false]);
    expect(await tell(3)).toEqual(['cached → fallback', false]);
    expect(await tell(1)).toEqual(['cached → fallback', true]);
    expect(channel.kinds()).toEqual(['level', 'level', 'blocked']);
    expect(channel.told[0]).toMatchObject({
      ...{ kind: 'level', level: 'cached', before: '', reason: 'level', from: 'closed', to: 'closed', until: 0 },
      ...{ incident: '', size: 20, recorded: 9, succeeded: 0, threshold: 6_000, at: START },
    });
    expect(channel.told[0]!.evidence.length).toBe(9);
    expect(channel.told[2]).toMatchObject({ reason: 'success-rate', size: 20, recorded: 17, threshold: 2_000 });
  });

  it('hide nothing, keep the window, and move no `since`', async () => {
    const channel = new Twin(await bench());
    await channel.record('F'.repeat(9), POLICY);
    expect(await channel.client.exists(channel.names[1])).toBe(0);
    expect(await channel.view()).toMatchObject({ state: 'closed', blocked: false, since: 0, window: '0'.repeat(9) });
    channel.pass(1_000);
    // Calls that began before the change count all the same.
    expect(await channel.record('FFFF', POLICY, { duration: 5_000 })).toMatchObject({ counted: 4, late: 0 });
    expect(changes(channel)).toEqual([' → cached', 'cached → fallback']);
  });

  it('can be skipped, both ways', async () => {
    const channel = new Twin(await bench());
    const policy = levelled({ window: { kind: 'time', spanMs: 10_000, slots: 10, minCalls: 10 } });
    await channel.record('F'.repeat(7).concat('S'.repeat(3)), policy);
    expect(changes(channel)).toEqual([' → fallback']);
    channel.pass(11_000);
    await channel.record('S'.repeat(10), policy);
    expect(changes(channel)).toEqual([' → fallback', 'fallback → ']);
  });

  it('are left only five points above their line', async () => {
    const policy = levelled({ size: 100 });
    const channel = new Twin(await bench());
    await channel.record('F'.repeat(41), policy);
    await channel.record('S'.repeat(64), policy);
    expect((await channel.view()).window).toMatch(/^0{36}1{64}$/);
    expect(changes(channel)).toEqual([' → cached']);
    await channel.record('S', policy);
    expect(changes(channel)).toEqual([' → cached', 'cached → ']);
    expect(channel.told[1]).toMatchObject({ level: '', recorded: 100, succeeded: 65, evidence: [] });
  });

  it('step down to a better level only with the clearance of the worse one', async () => {
    const policy = levelled({ size: 100 });
    const channel = new Twin(await bench());
    await channel.record('F'.repeat(61), policy);
    expect(changes(channel)).toEqual([' → cached', 'cached → fallback']);
    await channel.record('S'.repeat(83), policy);
    expect((await channel.view()).window).toMatch(/^0{17}1{83}$/);
    expect(changes(channel).slice(2)).toEqual(['fallback → cached', 'cached → ']);
    expect(channel.told[2]).toMatchObject({ succeeded: 45 });
    expect(channel.told[3]).toMatchObject({ succeeded: 65 });
  });

  it('change once while a rate wavers three points round a line for an hour', async () => {
    const policy = levelled({ size: 100 });
    const channel = new Twin(await bench());
    let window = new Array<string>(40).fill('F');
    const rates: number[] = [];
    await channel.record('F'.repeat(40), policy);
    for (let i = 0; i < 120; i += 1) {
      channel.pass(30_000);
      const want = 60 + 3 * Math.sin(i / 2);
      let batch = '';
      while (batch.length < 30) {
        const good = 100 - window.filter((one) => one === 'F').length;
        const one = good > want ? 'F' : 'S';
        batch += one;
        window = [...window, one].slice(-100);
      }
      rates.push(100 - window.filter((one) => one === 'F').length);
      await channel.record(batch, policy);
      if (i % 10 === 0) await channel.recover(policy);
    }
    expect([Math.min(...rates), Math.max(...rates)]).toEqual([57, 63]);
    expect(channel.now - START).toBe(3_600_000);
    expect(changes(channel)).toEqual([' → cached']);
  }, 60_000);

  it('end with the window that gave rise to them, at the next look, with or without an outcome', async () => {
    for (const look of ['sweep', 'success', 'failure'] as const) {
      const channel = new Twin(await bench());
      await channel.record('F'.repeat(9), POLICY);
      expect(await channel.recover(POLICY), 'looked at again and again').toBe(-1);
      channel.pass(31 * 60_000 + 1);
      if (look === 'sweep') expect(await channel.recover(POLICY)).toBe(0);
      else await channel.record(look === 'success' ? 'S' : 'F', POLICY);
      expect(changes(channel), look).toEqual([' → cached', 'cached → ']);
    }
  });

  it('end with a block, without a word of their own, and begin anew after it', async () => {
    const channel = new Twin(await bench());
    await channel.record('F'.repeat(17), POLICY);
    channel.pass(60_000);
    await channel.recover(POLICY);
    channel.pass(1);
    await channel.record('F'.repeat(9), POLICY);
    expect(channel.kinds()).toEqual(['level', 'level', 'blocked', 'recovered', 'level']);
    expect(channel.told[4]).toMatchObject({ before: '', level: 'cached', incident: channel.told[2]!.incident });
  });

  it('tell of no block: neither of an old one, nor of its relapses', async () => {
    const channel = new Twin(await bench());
    for (let i = 0; i < 2; i += 1) {
      await channel.record('F'.repeat(17), POLICY);
      channel.pass(60_001);
    }
    channel.pass(60_000);
    await channel.recover(POLICY);
    await channel.record('F'.repeat(9), POLICY);
    expect(channel.told.at(-1)).toMatchObject({ kind: 'level', incident: '', trips: 0, block: 0, blockedAt: 0 });
  });

  it('end with a block by hand and with a block key of another program, and when a person keeps the channel in use', async () => {
    const byHand = new Twin(await bench());
    await byHand.record('F'.repeat(9), POLICY);
    await byHand.byHand('block', 5_000, POLICY);
    byHand.pass(5_000);
    await byHand.recover(POLICY);
    await byHand.record('F', POLICY);
    expect(changes(byHand)).toEqual([' → cached']);
    const kept = new Twin(await bench());
    await kept.record('F'.repeat(9), POLICY);
    await kept.byHand('unblock', 600_000, POLICY);
    await kept.recover(POLICY);
    expect(changes(kept)).toEqual([' → cached', 'cached → ']);
  });

  it.each([
    ['time', { kind: 'time', spanMs: 10_000, slots: 10, minCalls: 10 }],
    ['log', { kind: 'log', spanMs: 10_000, minCalls: 10, maxEntries: 1_000 }],
  ] as const)('follow a window of kind %s, from its least number of calls on', async (_kind, window) => {
    const policy = levelled({ window });
    const channel = new Twin(await bench());
    await channel.record('FFFFFSSSS', policy);
    expect(changes(channel)).toEqual([]);
    await channel.record('S', policy);
    expect(changes(channel)).toEqual([' → cached']);
    channel.pass(5_000);
    await channel.record('SSS', policy);
    expect(changes(channel)).toEqual([' → cached']);
    await channel.record('SS', policy);
    expect(changes(channel)).toEqual([' → cached', 'cached → ']);
    expect(channel.told[1]).toMatchObject({ recorded: 15, succeeded: 10 });
  });

  it.each([
    ['time', { kind: 'time', spanMs: 10_000, slots: 10, minCalls: 10 }],
    ['log', { kind: 'log', spanMs: 10_000, minCalls: 10, maxEntries: 1_000 }],
  ] as const)(
    'do not last for ever in a window of kind %s where calls became too few to judge',
    async (_kind, window) => {
      const policy = levelled({ window });
      const channel = new Twin(await bench());
      await channel.record('FFFFFSSSSS', policy);
      expect(changes(channel)).toEqual([' → cached']);
      channel.pass(5_000);
      await channel.record('S', policy);
      expect(changes(channel), 'the failures are still in the window').toEqual([' → cached']);
      channel.pass(6_000);
      await channel.record('S', policy);
      expect(changes(channel), 'no failure is left').toEqual([' → cached', 'cached → ']);
    },
  );

  it('count slow calls as failures where these are, and are the same however often a batch is read', async () => {
    const policy = levelled({ slow: { overMs: 100 } });
    const channel = new Twin(await bench());
    await channel.record('L'.repeat(5).concat('F'.repeat(4)), policy);
    expect(changes(channel)).toEqual([' → cached']);
  });

  it('end where the rules know them no more, or only observe, with the next outcome or the next look', async () => {
    for (const rules of [policyOf({ size: 20, rate: 20 }), { ...POLICY, mode: 'observe' as const }]) {
      for (const look of ['outcome', 'sweep'] as const) {
        const channel = new Twin(await bench());
        await channel.record('F'.repeat(9), POLICY);
        if (look === 'outcome') await channel.record('S', rules);
        else await channel.recover(rules);
        expect(changes(channel), look).toEqual([' → cached', 'cached → ']);
      }
    }
    const off = new Twin(await bench());
    await off.record('F'.repeat(9), POLICY);
    expect(await off.recover({ ...POLICY, mode: 'off' })).toBe(0);
    expect(changes(off)).toEqual([' → cached', 'cached → ']);
  });

  it('never arise in mode observe, which changes nothing for callers', async () => {
    const channel = new Twin(await bench());
    await channel.record('F'.repeat(16), { ...POLICY, mode: 'observe' });
    expect(channel.kinds()).toEqual([]);
  });
});
