import { TIMEOUT } from '../domain/ignored-codes.js';
import type { State } from '../domain/transition.js';

/** What is known of a block when a call is refused for it. Times in Redis ms. */
export type BlockFacts = {
  readonly channel: string;
  readonly state: State;
  /** When the block ends; -1: no end. */
  readonly until: number;
  readonly reason: string;
  readonly incident: string;
};

/**
 * A guarded call that was not made, because its channel is blocked. Branch on `code` where two copies of the package may meet. It is no
 * outcome: `track` and `guard` around another `guard` publish nothing for it.
 */
export class ChannelBlockedError extends Error {
  override readonly name = 'ChannelBlockedError';
  readonly code = 'CHANNEL_BLOCKED';
  readonly channel: string;
  readonly state: State;
  /** When the block ends, Redis ms; -1: no end. To be shown, as in Retry-After: a half-open channel may let calls through earlier. */
  readonly until: number;
  /** Why the channel was blocked, as its transition says. */
  readonly reason: string;
  readonly incident: string;

  constructor({ channel, state, until, reason, incident }: BlockFacts) {
    super(`channel ${channel} is ${phrase(state, until)}${reason === '' ? '' : ` (${reason})`}: the call was not made`);
    this.channel = channel;
    this.state = state;
    this.until = until;
    this.reason = reason;
    this.incident = incident;
  }
}

function phrase(state: State, until: number): string {
  if (state === 'half-open') return 'half-open and takes no more calls now';
  if (until === -1) return 'blocked without end';
  const end = new Date(until);
  // A foreign hand may have set a time that no calendar knows.
  return until > 0 && !Number.isNaN(end.getTime()) ? `blocked until ${end.toISOString()}` : 'blocked';
}

/** A guarded call that took longer than its `timeout`. Its name makes it count as `TIMEOUT`, here and in whatever else looks at it. */
export class ChannelTimeoutError extends Error {
  override readonly name = 'TimeoutError';
  readonly code = TIMEOUT;
  readonly channel: string;
  readonly timeoutMs: number;

  constructor(channel: string, timeoutMs: number) {
    super(`channel ${channel} did not answer within ${timeoutMs} ms`);
    this.channel = channel;
    this.timeoutMs = timeoutMs;
  }
}
