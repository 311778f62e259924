import type { AuditRecord } from '../channel/audit.js';

/** A change, or the end of one whose time was up: nobody writes such an end down, it follows from what is. */
export type AuditRow = AuditRecord & { readonly derived?: true };

/** The trail with the ends of overrides that ran out, each where it belongs. `records`: the whole trail, oldest first. */
export function withEnds(records: readonly AuditRecord[], nowMs: number): AuditRow[] {
  const running = new Map<string, AuditRecord>();
  const ends: AuditRow[] = [];
  const endOf = (channel: string, atMs: number) => {
    const override = running.get(channel);
    if (override?.until === undefined || override.until === -1 || override.until > atMs) return;
    running.delete(channel);
    // The end of a force is a transition, and so written down.
    if (override.action === 'force-closed') return;
    ends.push({
      id: override.id,
      ...{ at: override.until, action: 'block-ended', channel, derived: true },
      // What follows a block is the policy's: in use, or on trial.
      ...(override.to === undefined ? {} : { from: override.to }),
    });
  };
  for (const record of records) {
    const { channel, until } = record;
    if (channel === undefined) continue;
    endOf(channel, record.at);
    if (until === undefined) running.delete(channel);
    else running.set(channel, record);
  }
  for (const channel of [...running.keys()]) endOf(channel, nowMs);
  return [...records, ...ends].sort((a, b) => a.at - b.at);
}
