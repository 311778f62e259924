import { isAfter } from '../../src/domain/batch.js';
import { ChannelModel } from '../../src/domain/channel-model.js';
import { parseOutcome } from '../../src/domain/outcome.js';
import type { Policy } from '../../src/domain/policy.js';
import type { Transition } from '../../src/domain/transition.js';
import type { RedisClient } from '../../src/redis/client.js';
import type { Keys } from '../../src/redis/keys.js';
import type { LogEntry } from '../../src/transport/port.js';
import { decodeEntry } from '../../src/transport/redis-stream/decode.js';
import { listShards } from '../../src/transport/redis-stream/shards.js';

/** One channel's part of one entry of the log. `times`: ago and duration of each outcome, ms. */
export type Logged = { position: string; arrivalMs: number; results: string; times: number[] };

/** Each channel's entries, in order. */
export type LoggedChannels = Map<string, Logged[]>;

/** Everything that the log still holds. Reads whole shards: the log of a test must not have been trimmed. */
export async function readLog(client: RedisClient, keys: Keys): Promise<LoggedChannels> {
  const log: LoggedChannels = new Map();
  for (const shard of await listShards(client, keys)) {
    for (const [id, fields] of await client.xrange(keys.outcomes(shard), '-', '+')) {
      addEntry(log, decodeEntry(id, fields));
    }
  }
  return log;
}

/** Adds an entry behind those of its partition that were added before. */
export function addEntry(log: LoggedChannels, entry: LogEntry): void {
  for (const raw of entry.outcomes) {
    const parsed = parseOutcome(raw);
    if (parsed.ok) add(log, entry, parsed.outcome);
  }
}

function add(
  log: LoggedChannels,
  { position, arrivalMs }: { position: string; arrivalMs: number },
  outcome: { channel: string; success: boolean; agoMs?: number | undefined; durationMs?: number | undefined },
): void {
  const entries = log.get(outcome.channel) ?? [];
  log.set(outcome.channel, entries);
  if (entries.at(-1)?.position !== position) entries.push({ position, arrivalMs, results: '', times: [] });
  const entry = entries.at(-1)!;
  entry.results += outcome.success ? '1' : '0';
  entry.times.push(outcome.agoMs ?? 0, outcome.durationMs ?? 0);
}

/** What the log says that a channel's story had to be: its window now, and where the announced story differs, in words. */
export type Replayed = { window: string; counted: number; blocks: number; problems: string[] };

/**
 * Gives the log to the pure model, one entry at a time, each as of its own arrival. When a block began and ended only the system can
 * know (it depends on when it read what), so these two times are taken from the announced transitions, and each is checked on its own:
 * a block may not begin before the outcome that decided it had arrived. Between two blocks nothing is taken from anybody.
 *
 * @param transitions the channel's, by epoch; those by hand are not understood here
 */
export function replay(
  channel: string,
  policy: Policy,
  log: readonly Logged[],
  transitions: readonly Transition[],
): Replayed {
  const problems: string[] = [];
  const blocks = transitions.filter(({ kind }) => kind === 'blocked' || kind === 'relapsed');
  const ends = new Map(transitions.filter(({ kind }) => kind === 'recovered').map((each) => [each.block, each]));
  let model: ChannelModel | undefined = new ChannelModel(channel);
  let since = 0;
  let seen = 0;
  let counted = 0;
  let before: string | undefined;
  for (const entry of log) {
    if (before !== undefined && !isAfter(entry.position, before))
      problems.push(`the log is out of order at ${entry.position}`);
    before = entry.position;
    const timely = timelyPart(entry, since);
    if (model === undefined || timely.results === '') continue;
    counted += timely.results.length;
    const batch = { partition: 'verifier', results: timely.results, evidence: [], times: [] };
    const entries = [[entry.position, entry.arrivalMs, timely.results.length]] as const;
    const result = model.record(policy, { ...batch, entries }, entry.arrivalMs);
    if (!result.blocked) continue;
    const block = blocks[seen++];
    const end = block && ends.get(block.epoch);
    if (block === undefined) problems.push(`a block was never announced: decided by ${entry.position}`);
    else check(block, entry, result, problems);
    model = end && new ChannelModel(channel);
    since = end?.at ?? 0;
  }
  if (seen < blocks.length) {
    const { kind, epoch, at } = blocks[seen]!;
    problems.push(`${blocks.length - seen} blocks too many: the first is ${kind} ${epoch} at ${at}, since ${since}`);
  }
  const lastMs = log.at(-1)?.arrivalMs ?? 0;
  return { window: model?.view(lastMs).window ?? '', counted, blocks: seen, problems };
}

/** Calls that began at or before the last change of state say nothing about the channel since. */
function timelyPart({ arrivalMs, results, times }: Logged, since: number): { results: string } {
  if (since === 0) return { results };
  const begun = (i: number) => arrivalMs - times[2 * i]! - times[2 * i + 1]!;
  return { results: [...results].filter((_result, i) => begun(i) > since).join('') };
}

function check(
  block: Transition,
  entry: Logged,
  { recorded, succeeded }: { recorded: number; succeeded: number },
  problems: string[],
): void {
  if (block.recorded !== recorded || block.succeeded !== succeeded) {
    const told = `${block.succeeded}/${block.recorded}`;
    problems.push(`block ${block.epoch} was decided by ${told}, the log says ${succeeded}/${recorded}`);
  }
  if (block.at < entry.arrivalMs) problems.push(`block ${block.epoch} began before ${entry.position} arrived`);
}
