import type { Reader } from '../reader/index.js';

export type AdmitOptions<Channel extends string = string> = {
  /** Who asks (a user's id): with a share of users, one user gets the same answer as long as the channel stays half-open. */
  readonly key?: string;
  /**
   * The candidates that the channel was chosen from, as they were handed to `visible`, so that both agree on the floor. Default: the
   * channels of its group that the rules name, and those of it asked about in this process.
   */
  readonly among?: readonly Channel[];
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
  /** Gives back what was lent for this call, if anything. Any number of times, at once, never throws. */
  release(): void;
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
const NOT_TRIED: Admission = Object.freeze({ admitted: false, why: 'half-open', release: nothingLent });

/**
 * Admits by what the reader knows. A half-open channel is kept from everybody but the floor, as `visible` keeps it: who tries it is not
 * decided by this version.
 */
export function createAdmit<Channel extends string>(
  reader: Pick<Reader<Channel>, 'isBlocked' | 'isFloored' | 'stateOf'>,
): Admit<Channel> {
  return (channel, options) => {
    if (!reader.isBlocked(channel)) return CLOSED;
    if (reader.isFloored(channel, options?.among)) return FLOOR;
    return reader.stateOf(channel).state === 'half-open' ? NOT_TRIED : BLOCKED;
  };
}
