import { createHash } from 'node:crypto';
import type { Transition } from '../domain/transition.js';

/**
 * A job's id, made of what the job is about, so that adding it twice is one job: SHA-256 in hex of the parts, kept apart (`a`, `bc`
 * is not `ab`, `c`). A hash, because BullMQ refuses ids that hold `:` or are integers, and channels may be named so.
 */
export function jobId(...parts: readonly (string | number)[]): string {
  return createHash('sha256')
    .update(JSON.stringify(parts.map(String)))
    .digest('hex');
}

/** What names a transition for ever: its epoch; for the end of a block, the epoch of that block. */
type Named = Pick<Transition, 'channel' | 'epoch' | 'kind' | 'block'>;

/**
 * The id of the job that makes a transition known. The end of a block is named by that block, so that an end told from a recovery
 * job's own data and one told from the outbox are the same job.
 */
export function notifyJobId(transition: Named, ...more: readonly string[]): string {
  const { channel, epoch, kind, block } = transition;
  return jobId(channel, kind === 'recovered' && block > 0 ? block : epoch, kind, ...more);
}
