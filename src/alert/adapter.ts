import type { Transition } from '../domain/transition.js';
import type { Message } from './message.js';
import type { HttpAnswer, HttpRequest } from './post.js';
import { parseRetryAfter } from './retry-after.js';

/** One alert for one receiver: facts and text, frozen at fan-out. */
export type Alert = {
  /** The same on every attempt, so that a receiver can tell that it has seen it. */
  readonly id: string;
  readonly transition: Transition;
  readonly message: Message;
  /** The receiver was never told that this block began. */
  readonly untold: boolean;
};

/** Where it goes, resolved for this attempt. */
export type Target = {
  readonly url: string;
  readonly secret?: string;
  readonly mentions: readonly string[];
  readonly keyword?: string;
};

/**
 * How an attempt ended. Reasons are for the person on call: no URL, no secret, no text from the other side.
 *
 * - `retry`: `afterMs` is what the receiver asked for; `holdAll` says that it applies to every message for this receiver.
 * - `permanent`: repeating cannot help.
 */
export type Delivery =
  | { readonly outcome: 'delivered' }
  | { readonly outcome: 'retry'; readonly reason: string; readonly afterMs?: number; readonly holdAll?: boolean }
  | { readonly outcome: 'permanent'; readonly reason: string };

/** One vendor: how a request is made, and what an answer means. Both pure; the clock is a parameter. */
export type Adapter = {
  /** @throws {Error} the target's settings cannot be used; no secret in the message */
  request(alert: Alert, target: Target, nowMs: number): HttpRequest;
  judge(answer: HttpAnswer, nowMs: number): Delivery;
  /** Messages that the vendor takes in a stretch of time, with a margin. */
  readonly budget?: { readonly count: number; readonly perMs: number };
};

const TRANSIENT = new Set([408, 425, 429]);

/** What a status other than success means, the same for every vendor; `undefined` for 2xx. */
export function judgeStatus({ status, retryAfter, dateMs }: HttpAnswer, nowMs: number): Delivery | undefined {
  if (status >= 200 && status < 300) return undefined;
  if (status >= 300 && status < 400)
    return { outcome: 'permanent', reason: `answered ${status}; redirects are not followed` };
  if (!TRANSIENT.has(status) && status < 500) return { outcome: 'permanent', reason: `answered ${status}` };
  const afterMs = parseRetryAfter(retryAfter, dateMs ?? nowMs);
  const reason = `answered ${status}`;
  return { outcome: 'retry', reason, ...(afterMs !== undefined && { afterMs, holdAll: true }) };
}

export const JSON_HEADERS = { 'content-type': 'application/json; charset=utf-8', 'user-agent': 'fuseline' } as const;
