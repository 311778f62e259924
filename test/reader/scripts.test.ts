import { expect, it } from 'vitest';
import { mark } from '../../src/channel/agenda.js';
import { type Override, override } from '../../src/channel/override.js';
import { recover } from '../../src/channel/recover.js';
import { DEFAULT_POLICY, type Policy } from '../../src/domain/policy.js';
import type { Transition } from '../../src/domain/transition.js';
import { until } from '../support/wait.js';
import { bench } from './support.js';

const policy: Policy = { ...DEFAULT_POLICY, mode: 'on', holdMs: 200 };
const FRESH_MS = 300_000;
const hand = (action: Override['action'], forMs: number): Override => ({ action, forMs, actor: 'kim', note: 'test' });

it('agrees with the scripts: a block by hand, extended, lifted and held, the same from the feed and from the state', async () => {
  const { keys, client, tell, reader } = await bench();
  const fed = await reader({ resyncMs: 60_000 });
  const unfed = await reader({ resyncMs: 50 });
  const announced: Transition[] = [];
  // The outbox is never settled here, so it repeats what was told before, as it may.
  const announce = async ({ outbox }: { outbox: readonly Transition[] }) => {
    for (const transition of outbox) {
      if (!announced.some(({ epoch }) => epoch === transition.epoch)) announced.push(transition);
    }
    const epoch = announced.at(-1)!.epoch;
    // The second reader sees the state before the feed tells it.
    await until(() => unfed.told.at(-1)?.epoch === epoch, { what: 'the state to be noticed' });
    for (const transition of outbox) await tell(transition);
    await until(() => fed.told.at(-1)?.epoch === epoch, { what: 'the feed' });
  };
  await mark(client, keys, ['a']);
  await announce(await override(client, keys, 'a', policy, FRESH_MS, hand('block', 60_000)));
  for (const fuse of [fed, unfed]) {
    expect(fuse.isBlocked('a')).toBe(true);
    expect(fuse.stateOf('a')).toMatchObject({
      state: 'open',
      reason: 'manual',
      actor: 'kim',
      until: announced[0]!.until,
    });
  }
  await announce(await override(client, keys, 'a', policy, FRESH_MS, hand('block', 120_000)));
  expect(fed.stateOf('a').until).toBe(announced[1]!.until);
  await announce(await override(client, keys, 'a', policy, FRESH_MS, hand('unblock', 0)));
  expect([fed.isBlocked('a'), unfed.isBlocked('a')]).toEqual([false, false]);
  const holdEnds = Number(await client.hget(keys.state('a'), 'hold'));
  await until(async () => Number((await client.time())[0]) * 1_000 > holdEnds, { what: 'the end of the hold' });
  await announce(await recover(client, keys, 'a', policy, FRESH_MS));
  const gist = ({ kind, epoch, from, to, until: end, incident, block }: Transition) => ({
    kind,
    epoch,
    from,
    to,
    end,
    incident,
    block,
  });
  expect(announced.map(({ kind }) => kind)).toEqual(['blocked', 'extended', 'recovered', 'held']);
  expect(fed.told).toEqual(announced);
  expect(unfed.told.map(gist)).toEqual(announced.map(gist));
});
