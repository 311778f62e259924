/**
 * One channel's outcomes of one batch, in order, as the script and the model take them.
 */
export type ChannelBatch = {
  /** Names the fence: `<transport>/<topic or stream>/<n>/<generation>`, or `direct/<random>`. */
  readonly partition: string;
  /**
   * One character an outcome: `1` success, `0` failure, `2` a success that may have been sent before (direct mode); `3` a slow success and
   * `4` a wish to wait only under a policy that looks at these.
   */
  readonly results: string;
  /** `[position, arrival in ms or 0 for "now", outcomes in it]`, positions ascending. */
  readonly entries: readonly (readonly [position: string, arrivalMs: number, outcomes: number])[];
  /** `[agoMs, durationMs, agoMs, durationMs, …]`, one pair an outcome; empty when all are 0. */
  readonly times: readonly number[];
  /** One text per `0`, `3` and `4`, in order, at most 256 bytes each. */
  readonly evidence: readonly string[];
};

/** What a call of `record` did. */
export type RecordResult = {
  /** Transitions that this very call decided (not those found in the outbox). */
  readonly pushed: number;
  /** The channel is blocked after the call. */
  readonly blocked: boolean;
  /** The window after the call, or the one that decided if the call blocked: slots recorded, successes among them; 0, 0 while healthy. */
  readonly recorded: number;
  readonly succeeded: number;
  /** Outcomes by what became of them. `blockedDropped`: arrived while blocked. `clipped`: arrival lay in Redis's future. */
  readonly counted: number;
  readonly duplicate: number;
  readonly late: number;
  readonly stale: number;
  readonly blockedDropped: number;
  readonly overridden: number;
  readonly clipped: number;
  /** Calls that a full call log had to let go. */
  readonly crowded: number;
};

/** What a call on a healthy channel did: nothing. */
export const NOTHING_RECORDED: RecordResult = {
  ...{ pushed: 0, blocked: false, recorded: 0, succeeded: 0 },
  ...{ counted: 0, duplicate: 0, late: 0, stale: 0, blockedDropped: 0, overridden: 0, clipped: 0, crowded: 0 },
};

/**
 * Cuts a batch between its entries, so that no part holds more than `most` outcomes (or one entry that does). Recorded in order, the
 * parts give what the whole would have given.
 */
export function cutBatch(batch: ChannelBatch, most: number): ChannelBatch[] {
  if (batch.results.length <= most) return [batch];
  const parts: ChannelBatch[] = [];
  let [entry, at, failures] = [0, 0, 0];
  while (entry < batch.entries.length) {
    const [firstEntry, firstAt, firstFailure] = [entry, at, failures];
    do at += batch.entries[entry++]![2];
    while (entry < batch.entries.length && at + batch.entries[entry]![2] - firstAt <= most);
    const results = batch.results.slice(firstAt, at);
    for (const result of results) if (result !== '1' && result !== '2') failures += 1;
    parts.push({
      partition: batch.partition,
      results,
      entries: batch.entries.slice(firstEntry, entry),
      times: batch.times.slice(2 * firstAt, 2 * at),
      evidence: batch.evidence.slice(firstFailure, failures),
    });
  }
  return parts;
}

const position = /^(\d+)(?:-(\d+))?$/;

/** Whether position `a` lies behind `b`. Digits are compared as text: stream ids and offsets have up to 64 bits. */
export function isAfter(a: string, b: string): boolean {
  const [, a1 = '', a2 = '0'] = position.exec(a) ?? [];
  const [, b1 = '', b2 = '0'] = position.exec(b) ?? [];
  return a1 === b1 ? above(a2, b2) : above(a1, b1);
}

function above(a: string, b: string): boolean {
  return a.length === b.length ? a > b : a.length > b.length;
}
