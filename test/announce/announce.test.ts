import { describe, expect, it } from 'vitest';
import { freePort } from '../../deploy/local/redis-server.mjs';
import { LOOK_EVERY_MS } from '../../src/announce.js';
import { dueChannels, mark, reschedule } from '../../src/channel/agenda.js';
import { readFeed } from '../../src/channel/feed.js';
import type { BlockEnd } from '../../src/domain/transition.js';
import { notifyJobId } from '../../src/queue/job-id.js';
import { sweep } from '../../src/recovery/sweep.js';
import { policyOf } from '../channel/support.js';
import { stand } from './support.js';

describe('announce', () => {
  it('makes a block known everywhere once: feed, incidents, recovery job for its end, alert job; then the outbox is empty', async () => {
    const one = await stand();
    const { outbox, result } = await one.record('C', 'FFF');
    const [score] = await one.announcer.mark(['C']);
    expect(await one.announcer.announce('C', score!, { pushed: result.pushed, outbox })).toBe(true);
    const [block] = outbox;
    const feed = await readFeed(one.client, one.keys, '0-0', 1);
    expect(feed.map(({ transition }) => transition)).toEqual([block]);
    expect(await one.client.xlen(one.keys.incidents)).toBe(1);
    expect(await one.jobs('notify')).toMatchObject([{ id: notifyJobId(block!), data: block }]);
    const [end] = await one.jobs<BlockEnd>('recovery');
    expect(end!.data).toMatchObject({ channel: 'C', block: block!.epoch, until: block!.until, blockedAt: block!.at });
    expect(Math.abs(end!.delay - 60_000)).toBeLessThan(2_000);
    expect(await one.client.exists(one.keys.channel('C')[4])).toBe(0);
    expect(await one.counted('circuit_breaker_state_changes_total')).toBe(1);
    const agenda = await one.agenda();
    const aheadMs = agenda.C! - (await one.now());
    expect(aheadMs).toBeGreaterThan(0);
    expect(aheadMs).toBeLessThanOrEqual(LOOK_EVERY_MS);
  });

  it('two processes that announce the same outbox make one job of each kind, and only the one whose call decided counts it', async () => {
    const one = await stand();
    const two = await stand({ keys: one.keys });
    const { outbox } = await one.record('C', 'FFF');
    const again = await two.record('C', 'F');
    expect(again.result.pushed).toBe(0);
    const [a] = await one.announcer.mark(['C']);
    const [b] = await two.announcer.mark(['C']);
    const told = await Promise.all([
      one.announcer.announce('C', a!, { pushed: 1, outbox }),
      two.announcer.announce('C', b!, { pushed: 0, outbox: again.outbox }),
    ]);
    expect(told).toEqual([true, true]);
    expect((await one.jobs('notify')).length).toBe(1);
    expect((await one.jobs('recovery')).length).toBe(1);
    expect(await one.counted('circuit_breaker_state_changes_total')).toBe(1);
    expect(await two.counted('circuit_breaker_state_changes_total')).toBe(0);
    expect(Object.keys(await one.agenda())).toEqual(['C']);
  });

  it('leaves a transition that came meanwhile in the outbox, and the channel due', async () => {
    const one = await stand();
    const { outbox } = await one.record('C', 'FFF');
    await one.unblock('C');
    const [score] = await one.announcer.mark(['C']);
    expect(await one.announcer.announce('C', score!, { pushed: 1, outbox })).toBe(false);
    expect(await one.client.llen(one.keys.channel('C')[4])).toBe(1);
    expect((await one.agenda()).C).toBe(Number(score));
    await sweep(one.watching);
    expect((await one.jobs('notify')).map(({ data }) => data.kind).sort()).toEqual(['blocked', 'recovered']);
  });

  it('with the queue away the feed gets a transition at once, and neither feed nor history is filled by those who try again', async () => {
    const away = await stand({ queueUrl: `redis://127.0.0.1:${await freePort()}`, queueDeadlineMs: 100 });
    const { outbox } = await away.record('C', 'FFF');
    for (let i = 0; i < 5; i += 1) {
      const tries = Array.from({ length: 4 }, async () => {
        const [score] = await away.announcer.mark(['C']);
        return away.announcer.announce('C', score!, { pushed: 0, outbox });
      });
      expect(await Promise.all(tries)).toEqual([false, false, false, false]);
    }
    await away.unblock('C');
    expect(await sweep(away.watching)).toMatchObject({ failed: 1 });
    const feed = await readFeed(away.client, away.keys, '0-0', 1);
    expect(feed.map(({ transition }) => transition?.kind)).toEqual(['blocked', 'recovered']);
    expect(await away.client.xlen(away.keys.incidents)).toBe(2);
    expect(await away.counted('fuseline_announcements_total')).toBeLessThan(10);
  });

  it('with the queue away nothing is lost and nobody waits long: the window goes on, a later sweep tells', async () => {
    const away = await stand({ queueUrl: `redis://127.0.0.1:${await freePort()}`, queueDeadlineMs: 300 });
    const { outbox } = await away.record('C', 'FFF');
    const [score] = await away.announcer.mark(['C']);
    const begun = performance.now();
    expect(await away.announcer.announce('C', score!, { pushed: 1, outbox })).toBe(false);
    expect(performance.now() - begun).toBeLessThan(2_000);
    expect(away.warnings).toEqual([expect.stringContaining('stays in the outbox')]);
    expect((await away.record('C', 'FSF')).outbox).toEqual(outbox);
    expect((await away.record('D', 'FF')).result).toMatchObject({ recorded: 2 });
    expect(await sweep(away.watching)).toEqual({ looked: 1, moved: 0, failed: 1 });
    expect((await away.agenda()).C).toBe(Number(score));

    const healed = await stand({ keys: away.keys });
    expect(await sweep(healed.watching)).toEqual({ looked: 1, moved: 1, failed: 0 });
    expect((await healed.jobs('notify')).map(({ data }) => data.epoch)).toEqual([outbox[0]!.epoch]);
    expect(await healed.client.exists(healed.keys.channel('C')[4])).toBe(0);
  });

  it('gives a shadow block no recovery job: its loss would tell an end of what never was', async () => {
    const one = await stand({ policy: policyOf({ mode: 'observe' }) });
    const { outbox } = await one.record('C', 'FFF');
    const [score] = await one.announcer.mark(['C']);
    await one.announcer.announce('C', score!, { pushed: 1, outbox });
    expect((await one.jobs('notify')).map(({ data }) => data.kind)).toEqual(['observed']);
    expect(await one.jobs('recovery')).toEqual([]);
    expect(Object.keys(await one.agenda())).toEqual(['C']);
  });

  it('gives a block without end no job, but a place on the agenda', async () => {
    const one = await stand();
    await one.client.set(one.keys.blocked('C'), 'x');
    const { outbox, result } = await one.record('C', 'S');
    const [score] = await one.announcer.mark(['C']);
    await one.announcer.announce('C', score!, { pushed: result.pushed, outbox });
    expect(await one.jobs('recovery')).toEqual([]);
    expect((await one.agenda()).C! - (await one.now())).toBeGreaterThan(0);
  });

  it('passes by an outbox entry that it cannot read, and tells the others', async () => {
    const one = await stand();
    const outboxKey = one.keys.channel('C')[4];
    await one.client.rpush(outboxKey, 'not json', '{"kind":"teleported","epoch":"5"}');
    const { outbox } = await one.record('C', 'FFF');
    const [score] = await one.announcer.mark(['C']);
    await one.announcer.announce('C', score!, { pushed: 1, outbox });
    expect((await one.jobs('notify')).length).toBe(1);
    expect(await one.client.lrange(outboxKey, 0, -1)).toEqual(['not json', '{"kind":"teleported","epoch":"5"}']);
    await sweep(one.watching);
    expect((await one.agenda()).C! - (await one.now())).toBeGreaterThan(0);
  });
});

describe('the agenda', () => {
  it('changes with every mark, so that whoever read an earlier one can tell, also within one microsecond', async () => {
    const { client, keys } = await stand();
    const scores = await mark(client, keys, new Array(50).fill('C'));
    for (const [i, score] of scores.entries()) if (i > 0) expect(Number(score)).toBeLessThan(Number(scores[i - 1]));
    const [next] = await mark(client, keys, ['C']);
    expect(Number(next)).toBeLessThan(Number(scores.at(-1)));
    expect(next).toMatch(/^-\d{16}$/);
  });

  it('never loses a mark that comes between a reader’s look and what it writes', async () => {
    const { client, keys } = await stand();
    await mark(client, keys, ['C']);
    const [seen] = await dueChannels(client, keys, 10);
    const [newer] = await mark(client, keys, ['C']);
    expect(await reschedule(client, keys, 'C', seen!.score, 0)).toBe(false);
    expect(await reschedule(client, keys, 'C', seen!.score, Date.now() + 60_000)).toBe(false);
    expect(await dueChannels(client, keys, 10)).toEqual([{ channel: 'C', score: newer }]);
    expect(await reschedule(client, keys, 'C', newer!, 0)).toBe(true);
    expect(await dueChannels(client, keys, 10)).toEqual([]);
    expect(await reschedule(client, keys, 'C', newer!, 0)).toBe(false);
  });

  it('never loses a mark, whatever markers and readers do at once', async () => {
    const one = await stand();
    const two = await stand({ keys: one.keys });
    for (let round = 0; round < 200; round += 1) {
      await one.client.zadd(one.keys.agenda, round % 2 === 0 ? 5 : Date.now() - 5, 'C');
      const [seen] = await dueChannels(one.client, one.keys, 1);
      const [[score], done] = await Promise.all([
        mark(two.client, two.keys, ['C']),
        reschedule(one.client, one.keys, 'C', seen!.score, round % 3 === 0 ? 0 : Date.now() + 60_000),
      ]);
      // Before or after: the mark stands.
      expect([true, false]).toContain(done);
      expect((await one.agenda()).C).toBe(Number(score));
    }
  });
});
