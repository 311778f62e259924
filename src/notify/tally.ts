/**
 * What became of alerts, per receiver; every one ends in one of these but `retried`.
 *
 * - `delivered`; `retried` (failed attempts that are tried again); `dead` (given up, kept for a person).
 * - `merged`: newer news of the channel was on its way, or had been told. `duplicate`: told before.
 * - `unprompted`: the end of a block of which the receiver was never told.
 */
export type AlertCount = 'delivered' | 'retried' | 'dead' | 'merged' | 'duplicate' | 'unprompted';

export type Tally = {
  add(receiver: string, count: AlertCount): void;
  /** Since the process began; receivers that are gone from the rules stay. */
  counts(): Readonly<Record<string, Readonly<Record<AlertCount, number>>>>;
};

export function createTally(): Tally {
  const all: Record<string, Record<AlertCount, number>> = {};
  return {
    add(receiver, count) {
      all[receiver] ??= { delivered: 0, retried: 0, dead: 0, merged: 0, duplicate: 0, unprompted: 0 };
      all[receiver][count]++;
    },
    counts: () => structuredClone(all),
  };
}
