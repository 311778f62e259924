import type { OutcomeInput } from '../domain/outcome.js';
import { callError, isCall, type Publish, type TrackOptions, tellResult, tellThrown } from '../publisher/track.js';
import type { ChannelState } from '../reader/types.js';
import type { Admission, Admit, AdmitOptions } from './admit.js';
import { ChannelBlockedError } from './errors.js';
import { Call, type GuardedCall, withinTimeout } from './timeout.js';

export type GuardOptions<Result, Fallback = never, Channel extends string = string> = AdmitOptions<Channel> &
  Omit<TrackOptions<Result>, 'admission'> & {
    /**
     * Answers in place of the call: when the channel is blocked, when the time is over, and when the call threw. It gets the reason; a
     * {@link ChannelBlockedError} says that nobody was called, whereas after any other the third party may have done what it was asked
     * for, so do not charge a second time. It may be async; what it throws goes to the caller. An answer that `success` finds bad is
     * an answer all the same.
     */
    readonly fallback?: (reason: unknown) => Fallback;
    /** Longest time for the call, in ms; then it counts as `TIMEOUT`. Default, and for what is no positive number: none. */
    readonly timeout?: number;
  };

/**
 * Runs a call as a circuit breaker does, with one state per channel for the whole fleet: not at all while the channel is blocked (but for
 * those that the floor or a half-open channel lets through), measured and published as `track` does.
 *
 * Rejects with {@link ChannelBlockedError}, {@link ChannelTimeoutError} or what the call threw, untouched; with a `fallback` only with
 * what that throws. And with a `TypeError`, before anything is done, where there is no function to call, or no `success`. Publishing never fails a call, nor waits.
 */
export type Guard<Channel extends string = string> = <T, F = never>(
  channel: Channel,
  fn: (call: GuardedCall) => T,
  options: GuardOptions<Awaited<T>, F, Channel>,
) => Promise<Awaited<T> | Awaited<F>>;

export type GuardDeps<Channel extends string> = {
  readonly admit: Admit<Channel>;
  readonly publish: (outcome: OutcomeInput<Channel>, nowMs: number) => void;
  readonly stateOf: (channel: Channel) => ChannelState<Channel>;
};

export function createGuard<Channel extends string>({ admit, publish, stateOf }: GuardDeps<Channel>): Guard<Channel> {
  const tell = publish as Publish;

  async function run<T, F>(
    admission: Admission,
    channel: Channel,
    fn: (call: GuardedCall) => T,
    options: GuardOptions<Awaited<T>, F, Channel>,
  ): Promise<Awaited<T> | Awaited<F>> {
    const { timeout = 0, fallback } = options;
    if (!admission.admitted) {
      const refused = new ChannelBlockedError(stateOf(channel));
      if (fallback === undefined) throw refused;
      return await fallback(refused);
    }
    const startedAt = performance.now();
    let result: Awaited<T>;
    try {
      result = await (timeout > 0 ? withinTimeout(channel, fn, timeout) : fn(new Call()));
    } catch (error) {
      admission.release(tellThrown(tell, channel, options, startedAt, error));
      if (fallback === undefined) throw error;
      return await fallback(error);
    }
    admission.release(tellResult(tell, channel, options, startedAt, result));
    return result;
  }

  return (channel, fn, options) => {
    // Before anything is lent, and before a mistake of the program could pass for a failure of the channel.
    if (!isCall(fn, options)) return Promise.reject(callError('guard', fn));
    const admission = admit(channel, options);
    // Only a permit has to be fetched; all others must not pay for a promise.
    if (!('then' in admission)) return run(admission, channel, fn, options);
    return admission.then((fetched) => run(fetched, channel, fn, options));
  };
}
