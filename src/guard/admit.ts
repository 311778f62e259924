import { isDrawn, isKey } from '../domain/trial.js';
import type { Reader } from '../reader/index.js';
import type { GiveBack, Lend } from './lender.js';

/** A permit outlives the call's own time by this, which covers the way to Redis and a busy event loop. */
const LEASE_MARGIN_MS = 1_000;
/** No permit is lent for longer. */
const LEASE_MOST_MS = 3_600_000;

export type AdmitOptions<Channel extends string = string> = {
  /**
   * Who asks (a user's id): with a share of users, one user gets the same answer as long as the channel stays half-open, here as in
   * `visible`. Without a key the call is drawn by lot, at the same share.
   */
  readonly key?: string;
  /**
   * The candidates that the channel was chosen from, as they were handed to `visible`, so that both agree on the floor. Default: the
   * channels of its group that the rules name, and those of it asked about in this process.
   */
  readonly among?: readonly Channel[];
  /**
   * Longest time that the call may take, in ms. A permit is lent for that and a second; default, and for what is no positive number: the
   * setting `permitLease` (60 s). Whoever takes longer, or dies, has then given it back.
   */
  readonly timeout?: number;
};

/** Whether one call may go. Whoever was admitted gives it back when the call is over; `guard` does so itself, `track` when it is handed it. */
export type Admission = {
  readonly admitted: boolean;
  /**
   * - `closed`: nothing keeps the call back.
   * - `blocked`: not admitted.
   * - `floor`: admitted though blocked, because its group would show too few channels otherwise.
   * - `half-open`: the channel is being tried, and this call is, or is not, among those that try it.
   */
  readonly why: 'closed' | 'blocked' | 'floor' | 'half-open';
  /**
   * Gives back what was lent for this call, if anything. Any number of times, at once, never throws. `isGood` false, for a call that
   * ended badly: it is kept for a moment more, until the fleet knows what follows, so that nobody else is burnt meanwhile.
   */
  release(isGood?: boolean): void;
};

/**
 * Decides about one call: at once wherever memory is enough, which is always unless a permit has to be fetched. Never throws nor rejects.
 * This is the one place that knows who is let through; `guard` and `admit` both ask here.
 */
export type Admit<Channel extends string = string> = (
  channel: Channel,
  options?: AdmitOptions<Channel>,
) => Admission | Promise<Admission>;

const nothingLent = () => {};
const CLOSED: Admission = Object.freeze({ admitted: true, why: 'closed', release: nothingLent });
const FLOOR: Admission = Object.freeze({ admitted: true, why: 'floor', release: nothingLent });
const BLOCKED: Admission = Object.freeze({ admitted: false, why: 'blocked', release: nothingLent });
const TRIED: Admission = Object.freeze({ admitted: true, why: 'half-open', release: nothingLent });
const NOT_TRIED: Admission = Object.freeze({ admitted: false, why: 'half-open', release: nothingLent });

/** Where permits come from, and for how long they are lent where the call has no time of its own. */
export type Lending = { readonly lend: Lend; readonly leaseMs: number };

/**
 * Admits by what the reader knows. To a half-open channel: a share of users, or who gets a permit; and everybody if the floor shows it.
 * Without `lending` there are no permits.
 */
export function createAdmit<Channel extends string>(
  reader: Pick<Reader<Channel>, 'isBlocked' | 'isFloored' | 'stateOf'>,
  lending?: Lending,
): Admit<Channel> {
  return (channel, options = {}) => {
    if (!reader.isBlocked(channel)) return CLOSED;
    const { among, key } = options;
    const { state, trial } = reader.stateOf(channel);
    if (trial?.share !== undefined && (isKey(key) ? isDrawn(trial, key) : Math.random() * 10_000 < trial.share))
      return TRIED;
    if (reader.isFloored(channel, among, key)) return FLOOR;
    if (trial?.permits === undefined || lending === undefined) return state === 'half-open' ? NOT_TRIED : BLOCKED;
    const lent = lending.lend(channel, trial.permits, leaseOf(options.timeout, lending.leaseMs));
    return lent instanceof Promise ? lent.then(admitted) : admitted(lent);
  };
}

function admitted(giveBack: GiveBack | undefined): Admission {
  return giveBack === undefined ? NOT_TRIED : { admitted: true, why: 'half-open', release: giveBack };
}

function leaseOf(timeoutMs: number | undefined, otherwiseMs: number): number {
  if (timeoutMs === undefined || !(timeoutMs > 0)) return otherwiseMs;
  return Math.min(timeoutMs + LEASE_MARGIN_MS, LEASE_MOST_MS);
}
