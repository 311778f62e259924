import { beforeEach, describe, expect, it } from 'vitest';
import { createTold, type News, type Told } from '../../src/notify/told.js';
import { closeRedis, openRedis, type RedisClient, whenReady } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import { sharedRedisUrl, uniquePrefix } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';

let redis: RedisClient;
let keys: Keys;
let told: Told;

beforeEach(async () => {
  redis = openRedis(sharedRedisUrl(), 'commands');
  releaseAtEnd(() => closeRedis(redis));
  await whenReady(redis);
  keys = new Keys(uniquePrefix());
  told = createTold(redis, keys);
});

const news = (kind: News['kind'], epoch: number, block = 1, more: Partial<News> = {}): News => ({
  channel: 'A',
  kind,
  epoch,
  block,
  at: 0,
  until: 0,
  ...more,
});
const blocked = news('blocked', 1);
const recovered = news('recovered', 2);
const held = news('held', 3);
const offer = (...all: News[]) => Promise.all(all.map((each) => told.offer('ops', each)));
const verdict = async (each: News, run = `r${each.epoch}`) => (await told.claim('ops', each, run, 60_000)).verdict;
const deliver = async (each: News) => {
  await told.offer('ops', each);
  const got = await verdict(each);
  if (got === 'send' || got === 'both') await told.told('ops', each, `r${each.epoch}`);
  return got;
};

describe('what a receiver was told', () => {
  it('lets the story of a channel through in its order', async () => {
    expect([await deliver(blocked), await deliver(recovered), await deliver(held)]).toEqual(['send', 'send', 'send']);
    expect([
      await deliver(news('relapsed', 4, 4)),
      await deliver(news('extended', 5, 4)),
      await deliver(news('recovered', 6, 4)),
    ]).toEqual(['send', 'send', 'send']);
  });

  it('tells the end of a block and the end of its watch in this order, both, although they were found together', async () => {
    await deliver(blocked);
    await offer(recovered, held);
    expect(await verdict(held)).toBe('wait');
    expect(await deliver(recovered)).toBe('send');
    expect(await deliver(held)).toBe('send');
  });

  it('does not let the end of a watch wait for an end that went to the dead letters', async () => {
    await deliver(blocked);
    await offer(recovered, held);
    expect(await verdict(recovered)).toBe('send');
    await told.dead('ops', recovered, `r${recovered.epoch}`);
    expect(await deliver(held)).toBe('send');
  });

  it('5.01 knows what was delivered, and never tells old news as new', async () => {
    await deliver(blocked);
    expect(await verdict(blocked)).toBe('duplicate');
    await deliver(recovered);
    expect(await verdict(recovered)).toBe('duplicate');
    expect(await verdict(blocked)).toBe('older');
  });

  it('takes the end of a block for told, whichever epoch it came with', async () => {
    await deliver(blocked);
    await deliver(recovered);
    expect(await verdict(news('recovered', 9))).toBe('duplicate');
  });

  it('merges what waits into the newest news, which says so when the beginning was not told', async () => {
    await offer(blocked, recovered);
    expect(await verdict(blocked)).toBe('superseded');
    expect(await verdict(recovered)).toBe('both');
    await told.told('ops', recovered, 'r2');
    expect(await deliver(held)).toBe('send');
  });

  it('8.06 lets no end through when the beginning was never handed out, or given up', async () => {
    expect(await deliver(recovered)).toBe('unprompted');
    await told.offer('ops', news('blocked', 10, 10));
    await verdict(news('blocked', 10, 10));
    await told.dead('ops', news('blocked', 10, 10), 'r10');
    expect(await deliver(news('recovered', 11, 10))).toBe('unprompted');
    expect(await deliver(news('held', 12, 10))).toBe('unprompted');
  });

  it('tells the end to whoever still believes in an earlier block', async () => {
    await deliver(blocked);
    const relapse = news('relapsed', 5, 5);
    await offer(recovered, relapse);
    expect(await verdict(recovered)).toBe('superseded');
    await told.dead('ops', relapse, 'r5');
    expect(await deliver(news('recovered', 6, 5))).toBe('send');
  });

  it('lets no shadow block take the place of the end of a real one, nor of the end of its watch', async () => {
    await deliver(blocked);
    await offer(recovered);
    // The mode went to `observe` while the end was being retried.
    const observed = news('observed', 3, 3);
    expect(await deliver(observed)).toBe('send');
    expect(await verdict(observed)).toBe('duplicate');
    expect(await verdict(recovered)).toBe('send');
    await told.told('ops', recovered, 'r2');
    expect(await deliver(news('observed', 4, 4))).toBe('send');
    expect(await deliver(news('held', 5))).toBe('send');
  });

  it('takes news of a channel in use for nothing that ends or begins a block: an end and a watch’s end are told before and after it', async () => {
    for (const [i, kind] of (['level', 'suspected', 'forced', 'force-ended'] as const).entries()) {
      const at = 100 * i;
      await deliver(news('blocked', at + 1, at + 1));
      await offer(news('recovered', at + 2, at + 1));
      // Found while the end was being retried.
      expect(await deliver(news(kind, at + 3, 0)), kind).toBe('send');
      expect(await verdict(news('recovered', at + 2, at + 1)), kind).toBe('send');
      await told.told('ops', news('recovered', at + 2, at + 1), `r${at + 2}`);
      expect(await deliver(news(kind, at + 4, 0)), kind).toBe('send');
      expect(await deliver(news('held', at + 5, at + 1)), kind).toBe('send');
    }
  });

  it('tells of a level once, the newest, and none that a newer block has made old', async () => {
    const level = (epoch: number) => news('level', epoch, 0);
    await offer(level(1), level(2));
    expect(await verdict(level(1))).toBe('superseded');
    expect(await deliver(level(2))).toBe('send');
    expect(await verdict(level(2))).toBe('duplicate');
    // Other news of the channel in use is another matter, and so is the end of a watch.
    await deliver(news('blocked', 3, 3));
    await deliver(news('recovered', 4, 3));
    await offer(level(5), news('suspected', 6, 0));
    expect(await deliver(news('held', 7, 3))).toBe('send');
    expect(await verdict(level(5))).toBe('send');
    await told.dead('ops', level(5), 'r5');
    await offer(level(8), news('blocked', 9, 9));
    expect(await verdict(level(8))).toBe('superseded');
    await deliver(news('blocked', 9, 9));
    expect(await verdict(level(8))).toBe('older');
  });

  it('goes back to the newest level that is left when one went to the dead letters', async () => {
    await offer(news('level', 1, 0), news('level', 2, 0));
    expect(await verdict(news('level', 2, 0))).toBe('send');
    await told.dead('ops', news('level', 2, 0), 'r2');
    expect(await verdict(news('level', 1, 0))).toBe('send');
  });

  it('lets every reminder of a block through once, and its end after them', async () => {
    await deliver(blocked);
    for (const epoch of [2, 3, 4]) {
      const reminder = news('extended', epoch, 1, { reason: 'awaits-release', until: epoch });
      expect(await deliver(reminder)).toBe('send');
      expect(await verdict(reminder)).toBe('duplicate');
    }
    expect(await deliver(news('recovered', 5, 1))).toBe('send');
    // Who never heard of the block learns of it from a reminder.
    await told.dead('ops', news('blocked', 6, 6), 'r6');
    expect(await deliver(news('extended', 7, 6, { reason: 'awaits-release', until: 8 }))).toBe('both');
  });

  it('tells the end of a block that a failover took away, although what the receiver heard of it went the same way', async () => {
    await deliver(blocked);
    await deliver(recovered);
    // The block 5 was told, and forgotten.
    const end = news('recovered', 6, 5, { reason: 'state lost' });
    expect(await deliver(end)).toBe('send');
    expect(await verdict(end)).toBe('duplicate');
    expect(await deliver(news('held', 7, 5))).toBe('send');
  });

  it('gives the channel to one run at a time', async () => {
    await offer(blocked);
    expect(await verdict(blocked, 'one')).toBe('send');
    await offer(recovered);
    expect(await told.claim('ops', recovered, 'two', 60_000)).toEqual({
      verdict: 'wait',
      // Whoever has the turn may be through at any moment.
      ms: 200,
    });
    expect(await told.claim('ops', news('blocked', 7, 7, { channel: 'B' }), 'three', 1)).toEqual({ verdict: 'send' });
    await told.release('ops', blocked, 'one');
    expect(await verdict(recovered, 'two')).toBe('both');
  });

  it('makes every channel wait when the receiver asked for it', async () => {
    await offer(blocked);
    await verdict(blocked, 'one');
    await told.release('ops', blocked, 'one', 30_000);
    const other = news('blocked', 9, 9, { channel: 'B' });
    expect(await told.claim('ops', other, 'two', 1)).toEqual({ verdict: 'wait', ms: expect.closeTo(30_000, -3) });
    expect(await told.claim('night', other, 'two', 1)).toEqual({ verdict: 'send' });
  });

  it('6.07 lets no more messages through than the budget, over all channels', async () => {
    const budget = { count: 3, perMs: 60_000 };
    const claims = await Promise.all(
      [...Array(10).keys()].map((i) =>
        told.claim('ops', news('blocked', 1, 1, { channel: `c${i}` }), `r${i}`, 1, budget),
      ),
    );
    expect(claims.filter(({ verdict }) => verdict === 'send')).toHaveLength(3);
    const waiting = claims.filter((claim) => claim.verdict === 'wait');
    expect(waiting).toHaveLength(7);
    for (const claim of waiting) expect(claim.ms).toBeGreaterThan(58_000);
  });

  it('is bounded: it expires, later for a block that lasts longer, and holds at most so many channels', async () => {
    const day = 86_400_000;
    await deliver(blocked);
    expect(await redis.pttl(keys.told('ops'))).toBeGreaterThan(6.9 * day);
    await deliver(news('extended', 9, 1, { until: -1 }));
    expect(await redis.pttl(keys.told('ops'))).toBeGreaterThan(399 * day);
    await deliver(recovered);
    expect(await redis.pttl(keys.told('ops'))).toBeGreaterThan(399 * day);

    const many = Object.fromEntries([...Array(10_050).keys()].map((i) => [`c:old${i}`, `${i + 1}|held|1|0|1|1|0|`]));
    await redis.hset(keys.told('full'), many);
    await told.offer('full', blocked);
    await told.offer('full', news('blocked', 2, 2, { channel: 'B' }));
    expect(await redis.hlen(keys.told('full'))).toBeLessThanOrEqual(10_050);
    expect(await redis.hexists(keys.told('full'), 'c:A')).toBe(1);
  });

  it('keeps channels whose names hold separators and reserved words apart', async () => {
    for (const channel of ['a|b', '@wait', 'c:x', '1|2|3']) {
      const mine = news('blocked', 5, 5, { channel });
      expect(await deliver(mine)).toBe('send');
      expect(await verdict(mine)).toBe('duplicate');
    }
  });
});
