import { blockedMs, compareIncidents, type Difference } from './compare.js';
import type { Incident } from './incidents.js';
import { Batches, type PastEntry, type Reading, tellBad } from './past.js';
import { type Dispositions, Replay, type Replayed, type ReplayMode, type ReplayOptions } from './replay.js';

/** A set of rules to replay by; `name` is shown. */
export type RuleSet = { readonly name: string; readonly rules: ReplayOptions['rules'] };

/** Times in ms by the clock of the log, lengths in ms. `null`: nothing was read. */
export type ReplayReport = {
  readonly v: 1;
  readonly outcomes: number;
  readonly from: number | null;
  readonly to: number | null;
  readonly read: Pick<Reading, 'read' | 'bad' | 'firstBad' | 'outOfRange' | 'endsEarly'>;
  readonly mode: ReplayMode;
  readonly ruleSets: readonly RuleSetReport[];
  /** Only of two rule sets. */
  readonly differences?: readonly Difference[];
};

export type RuleSetReport = {
  readonly name: string;
  /** Incidents, blocks in them (the first ones and the relapses), and how long channels would have been hidden in all. */
  readonly incidents: number;
  readonly blocks: number;
  readonly relapses: number;
  readonly blockedMs: number;
  /** Outcomes that came during a block, and the failures among them: those would not have reached users. */
  readonly callsWhileBlocked: number;
  readonly failuresWhileBlocked: number;
  readonly dispositions: Dispositions;
  /** How often, and for how long in all, a channel would have been hidden because the third party asked to wait. No incidents. */
  readonly pauses: Replayed['pauses'];
  /** Blocks that would not have been, because too few sources failed. */
  readonly suspicions: number;
  /** Those that would have been blocked first, then by traffic. */
  readonly channels: readonly ChannelReport[];
  /** Channels that are not listed, because there were too many. */
  readonly forgotten: Replayed['forgotten'];
  readonly timeline: readonly Incident[];
  /** Blocks that the timeline leaves out, because there were too many. */
  readonly blocksOmitted: number;
};

export type ChannelReport = {
  readonly channel: string;
  /** As the rules have it, whatever it was judged by. */
  readonly mode: string;
  readonly calls: number;
  readonly failures: number;
  readonly incidents: number;
  readonly blocks: number;
  readonly blockedMs: number;
  readonly callsWhileBlocked: number;
  readonly failuresWhileBlocked: number;
};

export type ReplayRequest = {
  /** One or two. */
  readonly ruleSets: readonly RuleSet[];
  readonly mode: ReplayMode;
  readonly freshForMs: number;
  readonly maxChannels: number;
  readonly entries: AsyncIterable<readonly PastEntry[]>;
  readonly reading: Reading;
};

/** Replays a source by one or two sets of rules at once, and tells what they would have blocked. @throws what the source throws */
export async function replay(request: ReplayRequest): Promise<ReplayReport> {
  const { ruleSets, mode, freshForMs, maxChannels, entries, reading } = request;
  const replays = ruleSets.map(({ rules }) => new Replay({ rules, mode, freshForMs, maxChannels }));
  let outcomes = 0;
  let [from, to] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  const batches = new Batches((batch, arrivalMs) => {
    for (const [i, one] of replays.entries()) {
      const letters = one.take(batch, arrivalMs);
      if (i > 0) continue;
      for (const { partition, position, reason } of letters) tellBad(reading, `${partition} ${position}`, reason);
      for (const entry of batch.entries) outcomes += entry.outcomes.length;
      outcomes -= letters.filter(({ index }) => index !== -1).length;
    }
    from = Math.min(from, arrivalMs);
    to = Math.max(to, arrivalMs);
  });
  for await (const chunk of entries) for (const entry of chunk) batches.add(entry);
  batches.end();
  const results = replays.map((one) => one.end());
  const { read, bad, firstBad, outOfRange, endsEarly } = reading;
  return {
    v: 1,
    outcomes,
    from: Number.isFinite(from) ? from : null,
    to: Number.isFinite(to) ? to : null,
    read: { read, bad, firstBad, outOfRange, endsEarly },
    mode,
    ruleSets: results.map((result, i) => reportOf(ruleSets[i]!.name, result)),
    ...(results.length < 2 ? {} : { differences: compareIncidents(results[0]!.incidents, results[1]!.incidents) }),
  };
}

function reportOf(
  name: string,
  { dispositions, incidents, blocksOmitted, pauses, suspicions, channels, forgotten }: Replayed,
): RuleSetReport {
  const sums = new Map<string, { incidents: number; blocks: number; blockedMs: number }>();
  for (const incident of incidents) {
    const sum = sums.get(incident.channel) ?? { incidents: 0, blocks: 0, blockedMs: 0 };
    sum.incidents += 1;
    sum.blocks += incident.blocks.length;
    sum.blockedMs += blockedMs(incident);
    sums.set(incident.channel, sum);
  }
  const rows: ChannelReport[] = [...channels].map(([channel, tally]) => ({
    ...{ channel, incidents: 0, blocks: 0, blockedMs: 0 },
    ...tally,
    ...sums.get(channel),
  }));
  rows.sort((a, b) => b.blocks - a.blocks || b.calls - a.calls || (a.channel < b.channel ? -1 : 1));
  const total = (of: (row: ChannelReport) => number) => rows.reduce((sum, row) => sum + of(row), 0);
  const blocks = total((row) => row.blocks);
  return {
    name,
    incidents: incidents.length,
    blocks,
    relapses: blocks - incidents.length,
    blockedMs: total((row) => row.blockedMs),
    callsWhileBlocked: total((row) => row.callsWhileBlocked),
    failuresWhileBlocked: total((row) => row.failuresWhileBlocked),
    dispositions,
    pauses,
    suspicions,
    channels: rows,
    forgotten,
    timeline: incidents,
    blocksOmitted,
  };
}
