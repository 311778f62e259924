import { randomBytes } from 'node:crypto';
import { giveBackPermit, lendPermit } from '../channel/permits.js';
import { canonicalChannel } from '../domain/channel-name.js';
import type { RedisClient } from '../redis/client.js';
import { withDeadline } from '../redis/deadline.js';
import type { Keys } from '../redis/keys.js';

/** All of them are out: this process does not ask again sooner, however many calls it has. */
const PAUSE_MS = 20;
/** The same where Redis gave no answer. */
const AWAY_PAUSE_MS = 250;

/**
 * For so long a permit stays out after a call that ended badly: about as long as every process needs to learn that the channel is blocked
 * again. Given back at once it would go to the next caller, who would be burnt for nothing.
 */
export const LINGER_MS = 250;

/** Gives a permit back. Any number of times, never throws. `isGood` false: it stays out for {@link LINGER_MS} more. */
export type GiveBack = (isGood?: boolean) => void;

/** Asks for one of so many permits of a half-open channel, for `leaseMs` at most. `undefined`: none to be had. Never throws nor rejects. */
export type Lend = (
  channel: string,
  permits: number,
  leaseMs: number,
) => GiveBack | undefined | Promise<GiveBack | undefined>;

/** Monotonic counts, for metrics. */
export type PermitCounts = {
  lent: number;
  /** All were out, or the channel was not half-open any more: the call was not made. */
  refused: number;
  /** Redis did not answer in time, or not well: the call was not made, because the channel is known to be bad. */
  unanswered: number;
};

export type Lender = { readonly lend: Lend; counts(): PermitCounts };

/**
 * Lends permits out of Redis, so that the whole fleet has no more of them at once. No more calls of this process ask at the same time than
 * there are permits, and after a refusal nobody does for 20 ms: a busy channel that is being tried is no load for Redis.
 *
 * @param deadlineMs longest that a caller waits for a permit
 */
export function createLender(client: RedisClient, keys: Keys, deadlineMs = 50): Lender {
  const counts: PermitCounts = { lent: 0, refused: 0, unanswered: 0 };
  const desks = new Map<string, { asking: number; notBefore: number }>();
  const owners = randomBytes(9).toString('base64url');
  let calls = 0;

  async function ask(channel: string, permits: number, leaseMs: number): Promise<GiveBack | undefined> {
    const desk = desks.get(channel) ?? { asking: 0, notBefore: 0 };
    desks.set(channel, desk);
    if (desk.asking >= permits || performance.now() < desk.notBefore) {
      counts.refused += 1;
      return undefined;
    }
    desk.asking += 1;
    calls += 1;
    const owner = `${owners}-${calls}`;
    const giveBack = () => void giveBackPermit(client, keys, channel, owner).catch(() => {});
    const asked = lendPermit(client, keys, channel, { owner, leaseMs, permits });
    try {
      if (!(await withDeadline(asked, deadlineMs, 'lend.lua'))) {
        counts.refused += 1;
        desk.notBefore = performance.now() + PAUSE_MS;
        return undefined;
      }
    } catch {
      counts.unanswered += 1;
      desk.notBefore = performance.now() + AWAY_PAUSE_MS;
      // It may still be lent, now or later, and nobody would use it.
      asked.then((isLent) => isLent && giveBack(), giveBack);
      return undefined;
    } finally {
      desk.asking -= 1;
    }
    counts.lent += 1;
    let isOut = true;
    return (isGood) => {
      if (!isOut) return;
      isOut = false;
      if (isGood === false) {
        setTimeout(giveBack, LINGER_MS).unref();
        return;
      }
      desk.notBefore = 0;
      giveBack();
    };
  }

  return {
    lend: (channel, permits, leaseMs) => ask(canonicalChannel(channel), permits, leaseMs),
    counts: () => ({ ...counts }),
  };
}
