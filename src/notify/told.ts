import type { Transition } from '../domain/transition.js';
import type { RedisClient } from '../redis/client.js';
import { withDeadline } from '../redis/deadline.js';
import type { Keys } from '../redis/keys.js';
import { loadScript, runScript } from '../redis/script.js';

/** The part of a transition that decides who may still hear of it. */
export type News = Pick<Transition, 'channel' | 'epoch' | 'kind' | 'block' | 'at' | 'until'> &
  Partial<Pick<Transition, 'reason'>>;

/**
 * Whether a message may go out now.
 *
 * - `send`; `both`: send, and say that the beginning of this block had not been told.
 * - `wait`: another message of the channel is on its way, or the receiver's budget is spent: ask again after `ms`.
 * - `duplicate`: told already. `older`: newer news was told. `superseded`: newer news is on its way and will tell the state.
 * - `unprompted`: the end of a block of which the receiver has not heard and will not hear.
 */
export type Claim =
  | { readonly verdict: 'send' | 'both' | 'duplicate' | 'older' | 'superseded' | 'unprompted' }
  | { readonly verdict: 'wait'; readonly ms: number };

/** How much a receiver takes: `count` messages in `perMs`. */
export type Budget = { readonly count: number; readonly perMs: number };

/** What one receiver knows. Every call rejects when Redis gives no answer in time; repeating is harmless. */
export type Told = {
  /** Says that news was handed to the receiver's queue. Comes before the job, so that no older message overtakes it. */
  offer(receiver: string, news: News): Promise<void>;
  /** Asks to send. With `send` or `both` the channel is this run's for `holdMs`, or until the run is settled. */
  claim(receiver: string, news: News, run: string, holdMs: number, budget?: Budget): Promise<Claim>;
  told(receiver: string, news: News, run: string): Promise<void>;
  /** The message will never arrive. */
  dead(receiver: string, news: News, run: string): Promise<void>;
  /** The attempt failed. `waitMs`: the receiver takes no message at all for so long. */
  release(receiver: string, news: News, run: string, waitMs?: number): Promise<void>;
};

const DEADLINE_MS = 1_000;
const DAY_MS = 24 * 3_600_000;
const KEEP_MS = 7 * DAY_MS;
/** A block without end must not be forgotten before it ends, or nobody would be told of its end. */
const KEEP_ENDLESS_MS = 400 * DAY_MS;

const VERDICTS = ['send', 'both', 'duplicate', 'older', 'superseded', 'unprompted'] as const;

const script = loadScript('told');

export function createTold(redis: RedisClient, keys: Keys): Told {
  async function call(action: string, receiver: string, news: News, run: string, more: readonly number[] = []) {
    const [hold = 0, count = 0, per = 0] = more;
    const { channel, epoch, kind, block } = news;
    // Told from a job that only an announced block has: the failover that took the state may have taken what is remembered here.
    const lost = news.reason === 'state lost' ? 1 : 0;
    const args = [action, channel, epoch, kind, block, run, keepMs(news), Math.ceil(hold), count, per, lost];
    const reply = await withDeadline(runScript(redis, script, [keys.told(receiver)], args), DEADLINE_MS, 'told.lua');
    const [verdict = '', ms = 0] = Array.isArray(reply) ? reply : [reply];
    return { verdict: String(verdict), ms: Number(ms) };
  }

  return {
    async claim(receiver, news, run, holdMs, budget) {
      const { verdict, ms } = await call('claim', receiver, news, run, [
        holdMs,
        budget?.count ?? 0,
        budget?.perMs ?? 0,
      ]);
      if (verdict === 'wait') return { verdict, ms };
      const known = VERDICTS.find((each) => each === verdict);
      if (!known) throw new Error(`told.lua answered ${JSON.stringify(verdict)}`);
      return { verdict: known };
    },
    async offer(receiver, news) {
      await call('offer', receiver, news, '');
    },
    async told(receiver, news, run) {
      await call('told', receiver, news, run);
    },
    async dead(receiver, news, run) {
      await call('dead', receiver, news, run);
    },
    async release(receiver, news, run, waitMs = 0) {
      await call('release', receiver, news, run, [waitMs]);
    },
  };
}

function keepMs({ at, until }: News): number {
  if (until === -1) return KEEP_ENDLESS_MS;
  return Math.min(KEEP_MS + Math.max(until - at, 0), KEEP_ENDLESS_MS);
}
