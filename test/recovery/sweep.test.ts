import { describe, expect, it } from 'vitest';
import { type BlockEnd, Transition } from '../../src/domain/transition.js';
import { notifyJobId } from '../../src/queue/job-id.js';
import { endBlock, sweep } from '../../src/recovery/sweep.js';
import { type Stand, stand } from '../announce/support.js';
import { policyOf } from '../channel/support.js';
import { startRedis } from '../support/redis.js';
import { until } from '../support/wait.js';

const SHORT = policyOf({ forMs: 60, holdMs: 60_000 });

/** Lets the agenda's times come, without waiting for them. */
async function makeDue({ client, keys, now }: Stand, channel: string): Promise<void> {
  await client.zadd(keys.agenda, 'XX', (await now()) - 1, channel);
}

/** Blocks, and announces as a worker does. Resolves to what the recovery job will be given. */
async function block(one: Stand, channel = 'C'): Promise<BlockEnd> {
  const { result, outbox } = await one.record(channel, 'FFF');
  const [score] = await one.announcer.mark([channel]);
  await one.announcer.announce(channel, score!, { pushed: result.pushed, outbox });
  const { block: epoch, until: ends, incident, trips, blockedAt } = outbox.at(-1)!;
  return { channel, block: epoch, until: ends, incident, trips, blockedAt };
}

const ended = (one: Stand, end: BlockEnd) =>
  until(async () => (await one.now()) > end.until, { what: 'the block to end', intervalMs: 5 });
const kinds = async (one: Stand) => (await one.jobs('notify')).map(({ data }) => data.kind).sort();

describe('the sweep', () => {
  it('tells what a process that died right after its call left behind, once, with several watchers at it', async () => {
    const one = await stand();
    const others = await Promise.all([1, 2, 3].map(() => stand({ keys: one.keys })));
    // Direct mode: the mark comes before the call, then the process is gone.
    await one.announcer.mark(['C']);
    const { outbox } = await one.record('C', 'FFF');
    const reports = await Promise.all(others.map(({ watching }) => sweep(watching)));
    expect(reports.every(({ failed }) => failed === 0)).toBe(true);
    await sweep(one.watching);
    expect((await one.jobs('notify')).map(({ id }) => id)).toEqual([notifyJobId(outbox[0]!)]);
    expect((await one.jobs('recovery')).length).toBe(1);
    expect(await one.client.exists(one.keys.channel('C')[4])).toBe(0);
  });

  it('8.01 finds the end of a block without any event, also where Redis itself never deletes what expired', async () => {
    const server = await startRedis({ args: ['--enable-debug-command', 'yes'] });
    const one = await stand({ policy: SHORT, url: server.url });
    await one.client.call('DEBUG', 'SET-ACTIVE-EXPIRE', '0');
    const ends = [];
    for (let i = 0; i < 20; i += 1) ends.push(await block(one, `C${i}`));
    await ended(one, ends.at(-1)!);
    for (const { channel } of ends) await makeDue(one, channel);
    expect(await sweep(one.watching)).toEqual({ looked: 20, moved: 20, failed: 0 });
    const recovered = (await one.jobs('notify')).filter(({ data }) => data.kind === 'recovered');
    expect(recovered.length).toBe(20);
    expect(recovered.every(({ data }) => data.reason === 'expired')).toBe(true);
  });

  it('8.04 tells one recovery and no second block after everything was down while the block ended', async () => {
    const before = await stand({ policy: SHORT });
    const end = await block(before);
    await ended(before, end);
    const after = await stand({ policy: SHORT, keys: before.keys });
    await makeDue(after, 'C');
    await sweep(after.watching);
    await makeDue(after, 'C');
    await sweep(after.watching);
    expect(await kinds(after)).toEqual(['blocked', 'recovered']);
    const recovery = (await after.jobs('notify')).find(({ data }) => data.kind === 'recovered')!;
    expect(recovery.data).toMatchObject({ at: end.until, blockedAt: end.blockedAt });
  });

  it('8.06 names in every end the block that it ends, so that delivery can tell whether anybody heard of it', async () => {
    const one = await stand({ policy: SHORT });
    // Nobody announced this block.
    const { outbox } = await one.record('C', 'FFF');
    await until(async () => (await one.now()) > outbox[0]!.until, { what: 'the block to end', intervalMs: 5 });
    await one.announcer.mark(['C']);
    await sweep(one.watching);
    const told = (await one.jobs('notify')).map(({ data }) => Transition.parse(data)).sort((a, b) => a.epoch - b.epoch);
    expect(told.map(({ kind }) => kind)).toEqual(['blocked', 'recovered']);
    expect(told[1]).toMatchObject({ block: told[0]!.epoch, incident: told[0]!.incident });
  });

  it('ends an incident with "held" when the hold is survived, and then takes the channel off the agenda, not at the first look', async () => {
    const one = await stand({ policy: policyOf({ forMs: 30, holdMs: 30 }) });
    const end = await block(one);
    await until(async () => (await one.now()) > end.until + 30, { what: 'block and hold to end', intervalMs: 5 });
    await makeDue(one, 'C');
    await sweep(one.watching);
    expect(await kinds(one)).toEqual(['blocked', 'held', 'recovered']);
    expect(await one.agenda()).toEqual({});
  });

  it('takes a marked channel that is plainly closed off the agenda only at the second look, ten seconds later', async () => {
    const one = await stand();
    await one.announcer.mark(['C']);
    expect(await sweep(one.watching)).toEqual({ looked: 1, moved: 0, failed: 0 });
    const aheadMs = (await one.agenda()).C! - (await one.now());
    expect(aheadMs).toBeGreaterThan(9_000);
    expect(aheadMs).toBeLessThanOrEqual(10_000);
    expect(await sweep(one.watching)).toMatchObject({ looked: 0 });
    // A mark between the looks begins anew.
    await one.announcer.mark(['C']);
    await sweep(one.watching);
    expect((await one.agenda()).C).toBeGreaterThan(0);
    await makeDue(one, 'C');
    await sweep(one.watching);
    expect(await one.agenda()).toEqual({});
  });

  it('keeps looking at a block without end, and tells its end when the key goes', async () => {
    const one = await stand();
    await one.client.set(one.keys.blocked('C'), 'x');
    await one.announcer.mark(['C']);
    for (let i = 0; i < 3; i += 1) {
      await sweep(one.watching);
      const aheadMs = (await one.agenda()).C! - (await one.now());
      expect(aheadMs).toBeGreaterThan(0);
      expect(aheadMs).toBeLessThanOrEqual(5_000);
      await makeDue(one, 'C');
    }
    await one.client.del(one.keys.blocked('C'));
    await sweep(one.watching);
    expect(await kinds(one)).toEqual(['blocked', 'recovered']);
  });

  it('goes on with the others where one channel’s key has a foreign type, and says which', async () => {
    const one = await stand({ policy: SHORT });
    const ends = [await block(one, 'bad'), await block(one, 'good')];
    await one.client.del(one.keys.state('bad'));
    await one.client.lpush(one.keys.state('bad'), 'foreign');
    await ended(one, ends[1]!);
    for (const { channel } of ends) await makeDue(one, channel);
    expect(await sweep(one.watching)).toEqual({ looked: 2, moved: 1, failed: 1 });
    expect(one.warnings.length).toBe(1);
    expect((await one.agenda()).bad! - (await one.now())).toBeGreaterThan(50_000);
    expect(
      (await one.jobs('notify')).filter(({ data }) => data.kind === 'recovered').map(({ data }) => data.channel),
    ).toEqual(['good']);
  });
});

describe('a recovery job', () => {
  it('8.14 that comes while the key is still there changes nothing, says how long is left, and ends the block in time', async () => {
    const one = await stand({ policy: policyOf({ forMs: 300 }) });
    const end = await block(one);
    const left = await endBlock(one.watching, end);
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(300);
    expect(await one.client.exists(one.keys.blocked('C'))).toBe(1);
    await ended(one, end);
    expect(await endBlock(one.watching, end)).toBe(0);
    expect(await kinds(one)).toEqual(['blocked', 'recovered']);
    // A job that runs a second time finds nothing to do: the end has one epoch.
    const epoch = await one.client.hget(one.keys.state('C'), 'epoch');
    expect(await endBlock(one.watching, end)).toBe(0);
    expect(await one.client.hget(one.keys.state('C'), 'epoch')).toBe(epoch);
    expect(await one.client.xlen(one.keys.feed)).toBe(2);
  });

  it('of an end that was moved leaves the end to the job that knows the new one', async () => {
    const one = await stand({ policy: policyOf({ forMs: 500 }) });
    const end = await block(one);
    await one.client.pexpireat(one.keys.blocked('C'), end.until + 60_000);
    await ended(one, end);
    expect(await endBlock(one.watching, end)).toBe(0);
    expect(await kinds(one)).toEqual(['blocked', 'extended']);
    const untils = (await one.jobs<BlockEnd>('recovery')).map(({ data }) => data.until).sort();
    expect(untils).toEqual([end.until, end.until + 60_000]);
    expect(await one.client.exists(one.keys.blocked('C'))).toBe(1);
  });

  it('tells the end from its own data where Redis lost state and key, once, under the job id of the ordinary end', async () => {
    const one = await stand({ policy: SHORT });
    const end = await block(one);
    await one.client.del(...one.keys.channel('C'));
    await one.client.del(one.keys.agenda);
    await ended(one, end);
    for (let i = 0; i < 3; i += 1) await endBlock(one.watching, end);
    await sweep(one.watching);
    const recoveries = (await one.jobs('notify')).filter(({ data }) => data.kind === 'recovered');
    expect(recoveries.map(({ data }) => data)).toMatchObject([
      { reason: 'state lost', block: end.block, at: end.until, blockedAt: end.blockedAt, incident: end.incident },
    ]);
    expect(recoveries[0]!.data.epoch).toBeGreaterThan(end.block);
    expect(recoveries[0]!.id).toBe(notifyJobId({ channel: 'C', kind: 'recovered', epoch: 1, block: end.block }));
  });

  it('tells the end also where a failover left the state of before the block in its place', async () => {
    // What a replica has that did not get the block: closed and watched after an earlier one, or still in that one.
    for (const replica of ['closed', 'open']) {
      const one = await stand({ policy: policyOf({ forMs: 60, holdMs: 60_000 }) });
      const first = await block(one);
      if (replica === 'closed') {
        await ended(one, first);
        await endBlock(one.watching, first);
      }
      const before = await one.client.hgetall(one.keys.state('C'));
      expect(before.state).toBe(replica);
      await ended(one, first);
      await endBlock(one.watching, first);
      await until(async () => (await one.record('C', 'F')).result.blocked, { what: 'the relapse', intervalMs: 5 });
      const [relapse] = (await one.record('C', 'F')).outbox;
      const { block: epoch, until: ends, incident, trips, blockedAt } = relapse!;
      await one.client.del(...one.keys.channel('C'));
      await one.client.hset(one.keys.state('C'), before);
      const end = { channel: 'C', block: epoch, until: ends, incident, trips, blockedAt };
      await ended(one, end);
      for (let i = 0; i < 3; i += 1) await endBlock(one.watching, end);
      const told = (await one.jobs('notify')).filter(({ data }) => data.kind === 'recovered');
      expect(told.map(({ data }) => data.block).sort()).toEqual([first.block, epoch]);
      expect(told.find(({ data }) => data.block === epoch)!.data).toMatchObject({
        reason: 'state lost',
        trips: 2,
        incident,
      });
    }
  });

  it('tells no second end where the ordinary one was told before Redis lost the state', async () => {
    const one = await stand({ policy: SHORT });
    const end = await block(one);
    await ended(one, end);
    await makeDue(one, 'C');
    await sweep(one.watching);
    await one.client.del(...one.keys.channel('C'));
    await endBlock(one.watching, end);
    expect(await kinds(one)).toEqual(['blocked', 'recovered']);
  });

  it('does nothing for a block that ended long ago, although the channel is blocked again', async () => {
    const one = await stand({ policy: policyOf({ forMs: 30, holdMs: 0 }) });
    const first = await block(one);
    await ended(one, first);
    await endBlock(one.watching, first);
    const blockedAgain = await stand({ policy: policyOf({ forMs: 60_000 }), keys: one.keys });
    await until(async () => (await blockedAgain.record('C', 'F')).result.blocked, {
      what: 'the next block',
      intervalMs: 5,
    });
    await endBlock(blockedAgain.watching, first);
    expect(await one.client.exists(one.keys.blocked('C'))).toBe(1);
  });
});
