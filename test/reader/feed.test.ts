import { describe, expect, it } from 'vitest';
import { compareIds, readFeed, readFeedTip } from '../../src/channel/feed.js';
import { readBlockedNow } from '../../src/channel/snapshot.js';
import { closeRedis, openRedis } from '../../src/redis/client.js';
import { DeadlineError } from '../../src/redis/deadline.js';
import { until } from '../support/wait.js';
import { bench, makeTransition } from './support.js';

const HOUR = 3_600_000;

describe('the feed', () => {
  it('gives back what was appended, waits for more, and knows its own end', async () => {
    const { client, keys, tell } = await bench();
    expect(await readFeedTip(client, keys)).toEqual({ id: '0-0', added: 0, removed: 0 });
    const blocked = makeTransition({ channel: 'a', kind: 'blocked', epoch: 7, evidence: [{ at: 1, code: 'E' }] });
    await tell(blocked);
    const [entry] = await readFeed(client, keys, '0-0', 1);
    expect(entry!.transition).toEqual(blocked);
    expect(await readFeedTip(client, keys)).toEqual({ id: entry!.id, added: 1, removed: 0 });
    expect(await readFeed(client, keys, entry!.id, 1)).toEqual([]);
  });

  it('stays bounded', async () => {
    const { client, keys, tell } = await bench();
    const many = client.pipeline();
    for (let n = 0; n < 12_000; n++) many.xadd(keys.feed, '*', 'v', '1');
    await many.exec();
    await tell({ channel: 'a', kind: 'blocked', epoch: 1 });
    expect(await client.xlen(keys.feed)).toBeLessThan(10_200);
  });

  it('orders ids as numbers', () => {
    expect(compareIds('9-0', '10-0')).toBe(-1);
    expect(compareIds('5-10', '5-9')).toBe(1);
    expect(compareIds('5-1', '5-1')).toBe(0);
    expect(compareIds('18446744073709551615-2', '18446744073709551615-1')).toBe(1);
  });
});

describe('a reader that follows the feed', () => {
  it('blocks and shows a channel within the bound, and tells each transition once, however often it is announced', async () => {
    const { write, tell, now, reader, client, keys } = await bench();
    const fuse = await reader({ resyncMs: 60_000 });
    const at = await now();
    await write('a', { epoch: at, until: at + HOUR });
    const blocked = { channel: 'a', kind: 'blocked', epoch: at, until: at + HOUR };
    await tell(blocked);
    await until(() => fuse.isBlocked('a'), { what: 'the block', timeoutMs: 1_000 });
    await write('a', { epoch: at + 1, state: 'closed', since: at + 1 });
    await client.del(keys.blocked('a'));
    await tell({ channel: 'a', kind: 'recovered', epoch: at + 1 });
    await tell({ channel: 'a', kind: 'recovered', epoch: at + 1 });
    await tell(blocked);
    await until(() => fuse.status().counters.staleTransitions === 2, { what: 'the repetitions' });
    expect(fuse.isBlocked('a')).toBe(false);
    expect(fuse.told.map(({ kind, epoch }) => [kind, epoch - at])).toEqual([
      ['blocked', 0],
      ['recovered', 1],
    ]);
  });

  it('moves the end with extended and shortened, and leaves visibility alone with held, observed and unknown kinds', async () => {
    const { write, tell, now, reader } = await bench();
    const at = await now();
    await write('a', { epoch: at, until: at + HOUR });
    const fuse = await reader({ resyncMs: 60_000 });
    for (const [n, move] of ['extended', 'shortened'].entries()) {
      const end = at + (n === 0 ? 2 * HOUR : HOUR / 2);
      await write('a', { epoch: at + n + 1, until: end, since: at });
      await tell({ channel: 'a', kind: move, epoch: at + n + 1, until: end, from: 'open', to: 'open' });
      await until(() => fuse.stateOf('a').until === end, { what: move });
      expect(fuse.stateOf('a')).toMatchObject({ blocked: true, since: at });
    }
    await tell({ channel: 'a', kind: 'observed', epoch: at + 3 });
    await tell({ channel: 'a', kind: 'held', epoch: at + 4 });
    await tell({ channel: 'a', kind: 'teleported', epoch: at + 5 });
    await tell({ channel: 'b', kind: 'observed', epoch: at + 6 });
    await until(() => fuse.told.length === 5, { what: 'all that are known' });
    expect(fuse.told.map(({ kind }) => kind)).toEqual(['extended', 'shortened', 'observed', 'held', 'observed']);
    expect(fuse.isBlocked('a')).toBe(true);
    expect(fuse.isBlocked('b')).toBe(false);
    expect(fuse.status().counters.unknownEntries).toBe(1);
  });

  it('never goes back: news of an older epoch neither hides a channel nor is told', async () => {
    const { write, tell, now, reader } = await bench();
    const at = await now();
    await write('a', { epoch: at, state: 'closed', hold: at + HOUR });
    const fuse = await reader();
    await tell({ channel: 'a', kind: 'blocked', epoch: at - 1, until: at + HOUR });
    await until(() => fuse.status().counters.staleTransitions === 1, { what: 'the old news' });
    expect(fuse.isBlocked('a')).toBe(false);
    expect(fuse.told).toEqual([]);
  });

  it('8.14 hears of an end while the block key is still there: the key decides, and the end is told once', async () => {
    const { write, tell, now, reader, client, keys } = await bench();
    const at = await now();
    await write('a', { epoch: at, until: at + HOUR });
    const fuse = await reader({ resyncMs: 100 });
    await client.hset(keys.state('a'), { state: 'closed', epoch: at + 1, since: at + 1, until: 0 });
    await tell({ channel: 'a', kind: 'recovered', epoch: at + 1 });
    await until(() => fuse.told.length === 1, { what: 'the recovery' });
    const seen = fuse.status().counters.snapshots;
    await until(() => fuse.status().counters.snapshots > seen + 1, { what: 'another snapshot' });
    expect(fuse.isBlocked('a'), 'EXISTS says keep out').toBe(true);
    await client.del(keys.blocked('a'));
    await until(() => !fuse.isBlocked('a'), { what: 'the channel to be visible' });
    expect(fuse.told.map(({ kind }) => kind)).toEqual(['recovered']);
  });

  it('keeps a channel hidden while it is half-open, until the block key goes', async () => {
    const { write, tell, now, reader, client, keys } = await bench();
    const at = await now();
    const fuse = await reader({ resyncMs: 60_000, channels: ['a'] });
    await write('a', { epoch: at, until: at + HOUR, keyUntil: at + HOUR });
    await client.hset(keys.state('a'), { until: at + 300 });
    await tell({ channel: 'a', kind: 'blocked', epoch: at, until: at + 300 });
    await until(() => fuse.isBlocked('a'), { what: 'the block' });
    await until(async () => (await now()) > at + 400, { what: 'the end of open' });
    expect(fuse.isBlocked('a'), 'the key outlives the state open').toBe(true);
    await client.hset(keys.state('a'), { state: 'half-open', epoch: at + 1, until: at + HOUR });
    await tell({ channel: 'a', kind: 'half-open', epoch: at + 1, from: 'open', to: 'half-open', until: at + HOUR });
    await until(() => fuse.told.length === 2, { what: 'half-open' });
    expect(fuse.stateOf('a')).toMatchObject({ state: 'half-open', blocked: true });
  });

  it('a snapshot tells what the feed did not bring, from what the state shows', async () => {
    const { write, now, reader, client, keys } = await bench();
    const fuse = await reader({ resyncMs: 100 });
    const at = await now();
    await write('a', { epoch: at, until: at + HOUR, actor: 'kim', note: 'n' });
    await until(() => fuse.told.length === 1, { what: 'the block' });
    const common = { channel: 'a', incident: '1', v: 1 };
    expect(fuse.told[0]).toMatchObject({
      ...common,
      kind: 'blocked',
      epoch: at,
      from: 'closed',
      to: 'open',
      actor: 'kim',
      until: at + HOUR,
    });
    await write('a', { epoch: at + 1, since: at, until: at + 2 * HOUR });
    await until(() => fuse.told.length === 2, { what: 'the extension' });
    await client.del(keys.blocked('a'));
    await write('a', { epoch: at + 2, since: at + 2, state: 'closed', reason: 'expired' });
    await until(() => fuse.told.length === 3, { what: 'the recovery' });
    await write('a', { epoch: at + 3, since: at + 2, state: 'closed', reason: 'held' });
    await until(() => fuse.told.length === 4, { what: 'the hold' });
    await write('a', { epoch: at + 4, since: at + 2, state: 'closed', reason: 'held' });
    await write('a', { epoch: at + 5, since: at + 5, until: at + HOUR, trips: 2 });
    await until(() => fuse.told.length === 5, { what: 'the relapse' });
    expect(fuse.told.map(({ kind }) => kind)).toEqual(['blocked', 'extended', 'recovered', 'held', 'relapsed']);
    expect(fuse.isBlocked('a')).toBe(true);
  });

  it('notices that the feed was trimmed past its place, and takes a snapshot instead', async () => {
    const { write, tell, now, reader, client, keys } = await bench();
    for (let n = 0; n < 3; n++) await tell({ channel: 'old', kind: 'held', epoch: n + 1 });
    const gaps: string[] = [];
    const fuse = await reader({ resyncMs: 200 });
    fuse.on('gap', ({ reason }) => void gaps.push(reason));
    const at = await now();
    await write('lost', { epoch: at, until: at + HOUR });
    // Both at once, so that the follower can see neither.
    await client
      .multi()
      .xadd(
        keys.feed,
        '*',
        'transition',
        JSON.stringify(makeTransition({ channel: 'lost', kind: 'blocked', epoch: at })),
      )
      .xtrim(keys.feed, 'MAXLEN', 0)
      .exec();
    await until(() => gaps.length > 0, { what: 'the gap' });
    expect(fuse.isBlocked('lost')).toBe(true);
    expect(fuse.status().counters.gaps).toBe(1);
    await tell({ channel: 'next', kind: 'blocked', epoch: at + 5, until: at + HOUR });
    await until(() => fuse.told.some(({ channel }) => channel === 'next'), { what: 'the feed to go on' });
    expect(gaps).toHaveLength(1);
  });

  it('everything deleted under it: shows what nothing blocks any more, and follows the new feed', async () => {
    const { write, tell, now, reader, client, keys } = await bench();
    const at = await now();
    await write('a', { epoch: at, until: at + HOUR });
    await tell({ channel: 'a', kind: 'blocked', epoch: at, until: at + HOUR });
    const fuse = await reader({ resyncMs: 200 });
    expect(fuse.isBlocked('a')).toBe(true);
    await client.del(keys.feed, keys.agenda, keys.state('a'), keys.blocked('a'));
    await client.xadd(keys.feed, '1-1', 'v', '1');
    await until(() => !fuse.isBlocked('a'), { what: 'the channel to be visible' });
    await until(() => fuse.status().counters.gaps === 1, { what: 'the gap' });
    // In the feed alone, so that no snapshot can tell it.
    const b = makeTransition({ channel: 'b', kind: 'recovered', epoch: at + 1 });
    await client.xadd(keys.feed, '1-2', 'transition', JSON.stringify(b));
    await until(() => fuse.told.some(({ channel }) => channel === 'b'), { what: 'the new feed', timeoutMs: 5_000 });
  });

  it('a listener that throws harms neither the others nor the reader', async () => {
    const { write, tell, now, reader } = await bench();
    const fuse = await reader({ resyncMs: 60_000 });
    const heard: string[] = [];
    fuse.on('transition', () => {
      throw new Error('mine');
    });
    const off = fuse.on('transition', ({ channel }) => void heard.push(channel));
    const at = await now();
    await write('a', { epoch: at, until: at + HOUR });
    await tell({ channel: 'a', kind: 'blocked', epoch: at, until: at + HOUR });
    await until(() => heard.length === 1, { what: 'the other listener' });
    off();
    await tell({ channel: 'a', kind: 'recovered', epoch: at + 1 });
    await until(() => fuse.told.length === 2, { what: 'the second' });
    expect(heard).toEqual(['a']);
    expect(fuse.status().counters.listenerErrors).toBe(2);
  });
});

describe('readBlockedNow', () => {
  it('asks Redis itself, with a client that may still be connecting, within its deadline', async () => {
    const { write, now, url, keys } = await bench();
    await write('a', { epoch: 1, until: (await now()) + HOUR });
    const fresh = openRedis(url, 'commands');
    try {
      expect(await readBlockedNow(fresh, keys, 'a', 2_000)).toBe(true);
      expect(await readBlockedNow(fresh, keys, 'b')).toBe(false);
    } finally {
      await closeRedis(fresh);
    }
    const nowhere = openRedis('redis://127.0.0.1:1', 'commands');
    const startedAt = performance.now();
    await expect(readBlockedNow(nowhere, keys, 'a')).rejects.toThrow(DeadlineError);
    expect(performance.now() - startedAt).toBeLessThan(500);
    await closeRedis(nowhere);
  });
});
