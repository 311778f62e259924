import { createRequire } from 'node:module';

type RequestQueue = { pending: readonly unknown[]; scheduleCheckPendingRequests(): void };

let done = false;

/**
 * In kafkajs 2.2.4 every connection looks once a millisecond, for ever, whether requests wait for the end of a throttling, also when none
 * waits: its timer is set to a time long past, and sets itself anew. That wakes an idle process a thousand times a second and never lets it
 * end. With this it looks only while requests wait; whoever adds one sets the timer anyway.
 */
export function stillIdleConnections(): void {
  if (done) return;
  done = true;
  try {
    const { prototype } = createRequire(import.meta.url)('kafkajs/src/network/requestQueue') as {
      prototype: RequestQueue;
    };
    const schedule = prototype.scheduleCheckPendingRequests;
    prototype.scheduleCheckPendingRequests = function scheduleIfAnyWait(this: RequestQueue) {
      if (this.pending.length > 0) schedule.call(this);
    };
  } catch {
    // Another version keeps it elsewhere: it works all the same, less quietly.
  }
}
