import { z } from 'zod';
import { State } from '../domain/transition.js';
import { type RedisClient, whenReady } from '../redis/client.js';
import { isIncurable, withDeadline } from '../redis/deadline.js';
import type { Keys } from '../redis/keys.js';

/** Channels read in one round trip: enough to be fast, few enough not to hold other clients up. */
const CHUNK = 500;
/** Far above `maxChannels`: a foreign hand that fills the agenda must not fill every reader's memory. */
const AGENDA_MOST = 20_000;

/** Latest moment that a `Date` holds. A key that expires later has no end, as `lua/lib/channel.lua` sees it too. */
const DATE_MOST_MS = 8.64e15;

const int = z.coerce.number().int();

/** The hash `channel_state:{C}`, as readers see it. Times are Redis ms; `until` -1: a block without end, 0: none. */
const StoredState = z.object({
  state: State,
  epoch: int,
  since: int,
  until: int,
  /** The expiry that we gave the block key: if the key's own differs, a foreign hand moved the end by the difference. */
  keyUntil: int,
  /** End of the watched time; 0: not watched. */
  hold: int,
  incident: z
    .string()
    .nullish()
    .transform((text) => text ?? ''),
  trips: int,
  block: int,
  blockedAt: int,
  /** Of half-open; 0 also where the script never knew one. */
  step: int,
  /** How far a channel in use is degraded; empty: not at all. */
  level: z
    .string()
    .nullish()
    .transform((text) => text ?? ''),
  reason: z
    .string()
    .nullish()
    .transform((text) => text ?? ''),
  /** Who did it by hand, and why; the script writes empty texts where nobody did. */
  actor: z
    .string()
    .nullish()
    .transform((text) => text || undefined),
  note: z
    .string()
    .nullish()
    .transform((text) => text || undefined),
});
export type StoredState = z.infer<typeof StoredState>;
const FIELDS = Object.keys(StoredState.shape) as (keyof StoredState)[];

/** What Redis holds about one channel at one moment. */
export type ChannelRead = {
  readonly channel: string;
  /** Absent while healthy, or where it cannot be read. */
  readonly state?: StoredState;
  /** The block key: it exists if and only if the channel is to be kept out. `endsAt` -1: no expiry. */
  readonly blockKey?: { readonly value: string; readonly endsAt: number };
  /** What is wrong with this channel's own keys (another type, a damaged state). Others are not concerned. */
  readonly fault?: string;
};

/**
 * Reads state and block key of every channel given: pipelined on one server, one by one on a cluster, whose pipelines may not span
 * nodes. A key of the wrong type harms its own channel alone.
 *
 * @throws anything that is not one channel's own fault: connection, LOADING, ACL
 */
export async function readChannels(
  client: RedisClient,
  keys: Keys,
  channels: readonly string[],
): Promise<ChannelRead[]> {
  const reads: ChannelRead[] = [];
  for (const chunk of chunks(channels)) {
    const commands = chunk.flatMap((channel): Command[] => [
      ['hmget', keys.state(channel), ...FIELDS],
      ['get', keys.blocked(channel)],
      ['pexpiretime', keys.blocked(channel)],
    ]);
    const answers = await runAll(client, commands);
    reads.push(...chunk.map((channel, index) => decode(channel, answers.slice(index * 3, index * 3 + 3))));
  }
  return reads;
}

/** Which of these channels have a block key: for the many that are healthy, one `EXISTS` for each 500 on one server. */
export async function findBlocked(client: RedisClient, keys: Keys, channels: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const chunk of chunks(channels)) {
    const blockKeys = chunk.map((channel) => keys.blocked(channel));
    if (!isCluster(client) && (await client.exists(...blockKeys)) === 0) continue;
    const answers = await runAll(
      client,
      blockKeys.map((key): Command => ['exists', key]),
    );
    found.push(...chunk.filter((_channel, index) => answered(answers[index]!) === 1));
  }
  return found;
}

/** Every channel that is not plainly closed, as the agenda has it. */
export function readAgenda(client: RedisClient, keys: Keys): Promise<string[]> {
  return client.zrange(keys.agenda, '0', String(AGENDA_MOST - 1));
}

/** Redis time in ms, and the local monotonic moment (`performance.now()`) that it belongs to, give or take half of `roundTripMs`. */
export async function readTime(
  client: RedisClient,
): Promise<{ redisMs: number; localMs: number; roundTripMs: number }> {
  const before = performance.now();
  const [seconds, micros] = await client.time();
  const roundTripMs = performance.now() - before;
  const redisMs = Number(seconds) * 1_000 + Number(micros) / 1_000;
  return { redisMs, localMs: before + roundTripMs / 2, roundTripMs };
}

/**
 * Asks Redis itself whether a channel is to be kept out, for processes too short-lived to keep a reader. Knows no rules: a channel in
 * mode `off` is told as its key has it. A client that is still connecting is waited for, within the deadline.
 *
 * @throws {DeadlineError} no answer within `deadlineMs`; or what Redis answers
 */
export async function readBlockedNow(
  client: RedisClient,
  keys: Keys,
  channel: string,
  deadlineMs = 50,
): Promise<boolean> {
  const giveUp = new AbortController();
  if (client.status === 'wait') void client.connect().catch(() => {});
  const asked = whenReady(client, giveUp.signal).then(() => client.exists(keys.blocked(channel)));
  try {
    return (await withDeadline(asked, deadlineMs, `EXISTS ${keys.blocked(channel)}`)) === 1;
  } finally {
    giveUp.abort();
  }
}

type Command = [name: string, ...args: string[]];
type Answer = readonly [error: Error | null, value: unknown];

/** One answer per command, in order. Only errors that are one key's own come as answers; any other is thrown. */
async function runAll(client: RedisClient, commands: Command[]): Promise<Answer[]> {
  const answers = isCluster(client)
    ? await Promise.all(commands.map((command) => runOne(client, command)))
    : ((await client.pipeline(commands).exec()) ?? []);
  const outage = answers.find(([error]) => error !== null && !isIncurable(error));
  if (outage) throw outage[0];
  if (answers.length !== commands.length) throw new Error(`${answers.length} answers to ${commands.length} commands`);
  return answers;
}

async function runOne(client: RedisClient, [name, ...args]: Command): Promise<Answer> {
  try {
    return [null, await client.call(name, ...args)];
  } catch (error) {
    return [error instanceof Error ? error : new Error(String(error)), undefined];
  }
}

function decode(channel: string, [fields, value, expiry]: Answer[]): ChannelRead {
  const expiresAt = Number(answered(expiry!));
  const endsAt = expiresAt > DATE_MOST_MS ? -1 : expiresAt;
  // The contract is EXISTS, so a key that exists keeps out whatever its type; PEXPIRETIME answers -2 where there is none.
  const blockKey = endsAt === -2 ? undefined : { value: String(answered(value!) ?? ''), endsAt };
  const fault = [fields, value].find((answer) => answer![0] !== null)?.[0]?.message;
  const texts = answered(fields!) as (string | null)[] | undefined;
  // A hash without an epoch is none of ours: absent (all fields nil), or somebody else's.
  if (texts === undefined || texts[FIELDS.indexOf('epoch')] == null) return { channel, blockKey, fault };
  const parsed = StoredState.safeParse(Object.fromEntries(FIELDS.map((field, index) => [field, texts[index]])));
  if (parsed.success) return { channel, state: parsed.data, blockKey, fault };
  const issue = parsed.error.issues[0]!;
  return { channel, blockKey, fault: `channel_state, field ${issue.path.join('.')}: ${issue.message}` };
}

function answered([error, value]: Answer): unknown {
  return error === null ? value : undefined;
}

/** By its mark, not by `instanceof`: the caller's client may come from another copy of ioredis. */
function isCluster(client: RedisClient): boolean {
  return client.isCluster === true;
}

function* chunks(channels: readonly string[]): Generator<string[]> {
  for (let at = 0; at < channels.length; at += CHUNK) yield channels.slice(at, at + CHUNK);
}
