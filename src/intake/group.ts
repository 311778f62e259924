import type { ChannelBatch } from '../domain/batch.js';
import { classify, type Result, resultOf } from '../domain/classify.js';
import { type Outcome, parseOutcome } from '../domain/outcome.js';
import type { Policy } from '../domain/policy.js';
import type { DeadLetter, LogBatch, LogEntry } from '../transport/port.js';

/** A batch of the log, sorted out: what goes to the scripts, what goes to the dead letters, and what is merely counted. */
export type Grouped = {
  readonly channels: ReadonlyMap<string, ChannelBatch>;
  readonly letters: DeadLetter[];
  /** Outcomes that are not judged: `ignored` by code, `disabled` by mode `off`, `over-limit` beyond `maxChannels`. */
  readonly unjudged: { ignored: number; disabled: number; overLimit: number };
};

export type Grouping = {
  readonly policyFor: (channel: string) => Policy;
  /** Whether this worker may judge one more channel; see `maxChannels`. */
  readonly admits: (channel: string) => boolean;
  readonly logClockLeadMs: number;
};

type Builder = {
  policy: Policy;
  results: string;
  /** Successes that stand behind `results`: written at one go, because a text that grows by single characters is slow to read. */
  successes: number;
  entries: [position: string, arrivalMs: number, outcomes: number][];
  times: number[];
  timed: boolean;
  evidence: string[];
};

/**
 * Decodes, classifies and groups one batch by channel, keeping the log's order within each. Nothing here throws: what cannot be read
 * becomes a dead letter that names entry and index, and the rest goes on.
 */
export function groupBatch(batch: LogBatch, { policyFor, admits, logClockLeadMs }: Grouping): Grouped {
  const builders = new Map<string, Builder | null>();
  const letters: DeadLetter[] = [];
  const unjudged = { ignored: 0, disabled: 0, overLimit: 0 };

  function builderFor(channel: string): Builder | null {
    const found = builders.get(channel);
    if (found !== undefined) return found;
    const made = admits(channel)
      ? { policy: policyFor(channel), results: '', successes: 0, entries: [], times: [], timed: false, evidence: [] }
      : null;
    builders.set(channel, made);
    return made;
  }

  function take(outcome: Outcome, entry: LogEntry, arrivalMs: number): void {
    const builder = builderFor(outcome.channel);
    if (builder === null) {
      unjudged.overLimit += 1;
    } else if (builder.policy.mode === 'off') {
      unjudged.disabled += 1;
    } else {
      const kind = classify(builder.policy, outcome);
      if (kind === 'ignored') unjudged.ignored += 1;
      else add(builder, outcome, resultOf(kind), entry.position, arrivalMs);
    }
  }

  for (const entry of batch.entries) {
    const letter = (reason: string, index: number) =>
      letters.push({ reason, partition: batch.partition, position: entry.position, index, raw: entry.raw() });
    const arrivalMs = entry.arrivalMs - logClockLeadMs;
    if (entry.eachPlain?.((outcome) => take(outcome, entry, arrivalMs))) continue;
    const { fault, outcomes } = entry;
    if (fault !== undefined) {
      letter(fault, -1);
      continue;
    }
    for (let i = 0; i < outcomes.length; i += 1) {
      const parsed = parseOutcome(outcomes[i]);
      if (parsed.ok) take(parsed.outcome, entry, arrivalMs);
      else letter(parsed.reason, i);
    }
  }

  const channels = new Map<string, ChannelBatch>();
  for (const [channel, builder] of builders) {
    if (builder === null || builder.entries.length === 0) continue;
    const { entries, times, timed, evidence } = builder;
    const results = builder.results + '1'.repeat(builder.successes);
    channels.set(channel, { partition: batch.partition, results, entries, times: timed ? times : [], evidence });
  }
  return { channels, letters, unjudged };
}

function add(builder: Builder, outcome: Outcome, result: Result, position: string, arrivalMs: number): void {
  const last = builder.entries.at(-1);
  if (last?.[0] === position) last[2] += 1;
  else builder.entries.push([position, arrivalMs, 1]);
  if (result === '1') {
    builder.successes += 1;
  } else {
    builder.results += '1'.repeat(builder.successes) + result;
    builder.successes = 0;
    builder.evidence.push(evidenceText(outcome, arrivalMs));
  }
  const agoMs = outcome.agoMs ?? 0;
  const durationMs = outcome.durationMs ?? 0;
  builder.times.push(agoMs, durationMs);
  builder.timed ||= agoMs !== 0 || durationMs !== 0;
}

const EVIDENCE_MAX_BYTES = 256;

type Proof = Pick<Outcome, 'code' | 'source' | 'durationMs' | 'retryAfterMs'>;

/** A failure as the script keeps it: JSON of `Evidence`, at most 256 bytes; what does not fit is cut, code first kept. */
export function evidenceText({ code, source, durationMs, retryAfterMs }: Proof, at: number): string {
  for (const most of [128, 40, 16, 0]) {
    const cut = (text: string | undefined) => text?.slice(0, most).toWellFormed() || undefined;
    const text = JSON.stringify({ at, code: cut(code), durationMs, source: cut(source), retryAfterMs });
    if (Buffer.byteLength(text) <= EVIDENCE_MAX_BYTES) return text;
  }
  return JSON.stringify({ at, retryAfterMs });
}
