import { describe, expect, it } from 'vitest';
import { storyProblems } from '../support/story.js';
import { batchOf, bench, judged, policyOf, START, Twin } from './support.js';
import { DEADLINE, END, onTrial, trying, WAIT_MS } from './trials.js';

const POLICY = trying();

describe('half-open, in script and model alike', () => {
  it('keeps the block key throughout, so that programs which know only EXISTS stay out, and says in it what is on', async () => {
    const channel = new Twin(await bench());
    const key = async () => [
      await channel.client.get(channel.names[1]),
      await channel.client.pexpiretime(channel.names[1]),
    ];
    await channel.record('FFF', POLICY);
    expect(await key()).toEqual(['open', DEADLINE]);
    expect(channel.told[0]).toMatchObject({ kind: 'blocked', until: END, keyUntil: DEADLINE });
    channel.pass(59_999);
    await channel.recover(POLICY);
    expect(channel.kinds()).toEqual(['blocked']);
    channel.pass(1);
    expect(await channel.recover(POLICY)).toBe(DEADLINE);
    expect(await key()).toEqual(['half-open', DEADLINE]);
    expect(channel.told[1]).toMatchObject({
      ...{ kind: 'half-open', from: 'open', to: 'half-open', reason: 'expired', at: END, until: DEADLINE },
      ...{ step: 0, share: 1_000, trips: 1, incident: channel.told[0]!.incident, block: channel.told[0]!.epoch },
    });
    expect(channel.told[1]).not.toHaveProperty('permits');
  });

  it('begins with the first outcome after the block too, and judges this outcome', async () => {
    const channel = new Twin(await bench());
    await channel.record('FFF', POLICY);
    channel.pass(60_001);
    expect(await channel.record('F', POLICY)).toMatchObject({ counted: 1, blocked: true });
    expect(channel.kinds()).toEqual(['blocked', 'half-open', 'relapsed']);
  });

  it('closes after so many good outcomes; then the watch begins, and a block within it is a relapse', async () => {
    const channel = await onTrial();
    expect(await channel.record('SS', POLICY)).toMatchObject({ counted: 2, blocked: true, recorded: 0 });
    channel.pass(1_000);
    expect(await channel.record('S', POLICY)).toMatchObject({ counted: 1, blocked: false });
    expect(channel.told[2]).toMatchObject({
      ...{ kind: 'recovered', from: 'half-open', to: 'closed', reason: 'half-open-success', at: channel.now },
      ...{ blockedAt: START, block: channel.told[0]!.epoch },
    });
    expect(await channel.client.exists(channel.names[1])).toBe(0);
    expect(await channel.recover(POLICY)).toBe(channel.now + 60_000);
    channel.pass(59_000);
    await channel.record('FFF', POLICY);
    expect(channel.told[3]).toMatchObject({ kind: 'relapsed', trips: 2, until: channel.now + 120_000 });
  });

  it('opens again at a bad outcome, for longer, in the same incident, and tells which call it was', async () => {
    const channel = await onTrial();
    expect(await channel.record('SSFSSS', POLICY)).toMatchObject({ counted: 3, blockedDropped: 3, blocked: true });
    expect(channel.told[2]).toMatchObject({
      ...{ kind: 'relapsed', from: 'half-open', to: 'open', reason: 'half-open-failure', trips: 2 },
      ...{
        until: channel.now + 120_000,
        keyUntil: channel.now + 120_000 + WAIT_MS,
        incident: channel.told[0]!.incident,
      },
    });
    expect(channel.told[2]!.evidence).toMatchObject([{ code: 'E0' }]);
    expect(await channel.client.get(channel.names[1])).toBe('open');
    channel.pass(120_001);
    // The two good outcomes of the first trial are forgotten.
    expect(await channel.record('SS', POLICY)).toMatchObject({ blocked: true });
    expect(await channel.record('S', POLICY)).toMatchObject({ blocked: false });
    expect(channel.kinds()).toEqual(['blocked', 'half-open', 'relapsed', 'half-open', 'recovered']);
    expect(storyProblems(channel.told)).toEqual([]);
  });

  it('1.20 counts only calls that began on trial: those of before the block or during it are late', async () => {
    const channel = await onTrial();
    channel.pass(9_999);
    expect(await channel.record('FSF', POLICY, { duration: 10_000 })).toMatchObject({ late: 3, counted: 0 });
    expect(await channel.record('F', POLICY, { ago: 9_000, duration: 1_000 })).toMatchObject({ late: 1 });
    expect(await channel.record('SSS', POLICY, { duration: 9_999 })).toMatchObject({ counted: 3, blocked: false });
  });

  it('takes a slow call for bad where slow calls are failures, and for good where they have a threshold of their own', async () => {
    const bad = trying({}, { slow: { overMs: 100 } });
    const failing = await onTrial(bad);
    expect(await failing.record('L', bad)).toMatchObject({ counted: 1 });
    expect(failing.told[2]).toMatchObject({ kind: 'relapsed', reason: 'half-open-failure' });
    const good = trying({}, { slow: { overMs: 100, rate: 1_000 } });
    const passing = await onTrial(good);
    expect(await passing.record('LLL', good)).toMatchObject({ counted: 3, blocked: false });
    expect(passing.told[2]).toMatchObject({ kind: 'recovered', reason: 'half-open-success' });
  });

  it('is not moved by a third party that asks to wait, nor by what the caller broke off', async () => {
    const policy = trying({ close: 1 }, { rateLimit: { minMs: 1_000, maxMs: 60_000 } });
    const channel = await onTrial(policy);
    expect(await channel.record('WW', policy, { retryAfterMs: 5_000 })).toMatchObject({ counted: 2, blocked: true });
    expect(judged(policy, [{ success: false, code: 'CLIENT_CANCELLED' }])).toBeUndefined();
    expect(channel.kinds()).toEqual(['blocked', 'half-open']);
    await channel.record('S', policy);
    expect(channel.kinds()).toEqual(['blocked', 'half-open', 'recovered']);
  });

  it('closes at its deadline with too few outcomes, as of the deadline, and says so', async () => {
    const channel = await onTrial();
    await channel.record('SS', POLICY);
    channel.pass(WAIT_MS + 400);
    await channel.recover(POLICY);
    expect(channel.told[2]).toMatchObject({ kind: 'recovered', reason: 'half-open-timeout', at: DEADLINE, trips: 1 });
    expect(await channel.client.exists(channel.names[1])).toBe(0);
    expect(await channel.recover(POLICY)).toBe(DEADLINE + 60_000);
  });

  it('opens again at its deadline where the policy wants that, for longer', async () => {
    const policy = trying({ reopens: true });
    const channel = await onTrial(policy);
    channel.pass(WAIT_MS);
    await channel.recover(policy);
    expect(channel.told[2]).toMatchObject({
      ...{ kind: 'relapsed', from: 'half-open', reason: 'half-open-timeout', trips: 2, evidence: [] },
      ...{ at: channel.now, until: channel.now + 120_000 },
    });
    expect(await channel.client.get(channel.names[1])).toBe('open');
  });

  it('makes every change once, as of its own time, although nobody looked for hours', async () => {
    const closing = new Twin(await bench());
    await closing.record('FFF', POLICY);
    closing.pass(5 * 3_600_000);
    await closing.recover(POLICY);
    expect(closing.told.map(({ kind, at }) => [kind, at])).toEqual([
      ['blocked', START],
      ['half-open', END],
      ['recovered', DEADLINE],
      ['held', DEADLINE + 60_000],
    ]);
    expect(await closing.recover(POLICY)).toBe(0);
    const policy = trying({ reopens: true });
    const opening = new Twin(await bench());
    await opening.record('FFF', policy);
    for (const trips of [2, 3]) {
      opening.pass(5 * 3_600_000);
      await opening.recover(policy);
      await opening.recover(policy);
      expect(opening.told.slice(-2)).toMatchObject([
        { kind: 'half-open' },
        { kind: 'relapsed', at: opening.now, trips },
      ]);
      expect(opening.told.length).toBe(2 * trips - 1);
    }
    expect(opening.told[1]).toMatchObject({ at: END });
  });

  it('goes up its ramp, a step after so many good outcomes, within one deadline', async () => {
    const policy = trying({ steps: [1_000, 2_000, 5_000], close: 2 });
    const channel = await onTrial(policy);
    expect(await channel.record('SSSS', policy)).toMatchObject({ counted: 4, blocked: true });
    expect(channel.told.slice(1)).toMatchObject([
      { kind: 'half-open', from: 'open', step: 0, share: 1_000, until: DEADLINE },
      { kind: 'half-open', from: 'half-open', to: 'half-open', step: 1, share: 2_000, until: DEADLINE, reason: 'ramp' },
      { kind: 'half-open', from: 'half-open', to: 'half-open', step: 2, share: 5_000, until: DEADLINE, reason: 'ramp' },
    ]);
    expect(await channel.view()).toMatchObject({ since: END, until: DEADLINE });
    await channel.record('SS', policy);
    expect(channel.told[4]).toMatchObject({ kind: 'recovered', reason: 'half-open-success' });
  });

  it('begins its ramp anew after a bad outcome on a later step', async () => {
    const policy = trying({ steps: [0, 2_000], permits: 2, close: 1 });
    const channel = await onTrial(policy);
    expect(channel.told[1]).toMatchObject({ step: 0, permits: 2 });
    expect(channel.told[1]).not.toHaveProperty('share');
    await channel.record('SF', policy);
    expect(channel.told.slice(2)).toMatchObject([
      { step: 1, share: 2_000 },
      { kind: 'relapsed', trips: 2 },
    ]);
    channel.pass(120_001);
    await channel.record('S', policy);
    expect(channel.told.slice(4)).toMatchObject([
      { step: 0, permits: 2 },
      { step: 1, share: 2_000 },
    ]);
  });

  it('takes what is left of the batch that closed it for late: those calls began before', async () => {
    const channel = await onTrial();
    const batch = batchOf('SSSFFFF');
    expect(await channel.send(batch, POLICY)).toMatchObject({ counted: 3, late: 4, blocked: false, recorded: 0 });
    expect(await channel.view()).toMatchObject({ state: 'closed', window: '' });
    channel.pass(10);
    expect(await channel.send(batch, POLICY)).toMatchObject({ duplicate: 7, blocked: false });
    const elsewhere = { ...batch, partition: 'test/log/1/0', entries: [['1', channel.now - 10, 7]] as const };
    expect(await channel.send(elsewhere, POLICY)).toMatchObject({ late: 7 });
  });

  it('counts no outcome twice when a batch is read again, whole or cut otherwise', async () => {
    const channel = await onTrial();
    const batch = batchOf('SS');
    for (let i = 0; i < 3; i += 1) await channel.send(batch, POLICY);
    const cut = { ...batch, results: '1', entries: batch.entries.slice(1) };
    expect(await channel.send(cut, POLICY)).toMatchObject({ duplicate: 1, blocked: true });
    const bad = batchOf('F');
    await channel.send(bad, POLICY);
    channel.pass(120_001);
    await channel.recover(POLICY);
    expect(await channel.send(bad, POLICY)).toMatchObject({ duplicate: 1 });
    expect(channel.kinds()).toEqual(['blocked', 'half-open', 'relapsed', 'half-open']);
  });

  it('1.19 costs the failures of a trial instead of a whole window: one bad call blocks for the second time', async () => {
    const full = new Twin(await bench());
    await full.record('FFF', policyOf({}));
    full.pass(60_001);
    expect(await full.record('FFFF', policyOf({}))).toMatchObject({ counted: 3, blockedDropped: 1 });
    expect(await (await onTrial()).record('FFFF', POLICY)).toMatchObject({ counted: 1, blockedDropped: 3 });
  });
});
