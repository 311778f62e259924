import { AS_WRITTEN, type Factors, readFactors, STEP_EVERY_MS } from '../domain/dynamic.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { loadScript, runScript } from '../redis/script.js';

const step = loadScript('load-step');
const byHand = loadScript('load-hand');

/** A load that a person set. Times in ms of Redis. */
export type LoadByHand = {
  /** A share, 0 to 1. */
  readonly load: number;
  /** -1: without end. It may have passed; see {@link handInForce}. */
  readonly until: number;
  readonly actor: string;
};

/** What `fuseline:load` holds. */
export type StoredLoad = {
  readonly factors: Factors;
  /** When the last step was taken, Redis ms; 0: none was. */
  readonly at: number;
  /** The load by which it was taken, and whose it was. Absent: none was. */
  readonly last?: { readonly load: number; readonly source: LoadSource };
  readonly hand?: LoadByHand;
  /** As it was read, so that a step is taken only from there. */
  readonly seen: { readonly at: string; readonly handAt: string };
};

export type LoadSource = 'workers' | 'hand';

/** Reads the load and the factors; what cannot be read is as if it were not there. @throws what Redis answers */
export async function readLoad(client: RedisClient, keys: Keys): Promise<StoredLoad> {
  const fields = await client.hgetall(keys.load);
  const [at, load, hand, until] = ['at', 'load', 'hand', 'handUntil'].map((name) => numberOf(fields[name]));
  const { at: seenAt = '', handAt = '', actor = '' } = fields;
  const seen = { at: seenAt, handAt };
  const stored = { factors: AS_WRITTEN, at: 0, seen, ...handOf(hand, until, actor) };
  if (at === undefined) return stored;
  const factors = readFactors({ window: Number(fields.windowFactor), rate: Number(fields.rateFactor) });
  const source = fields.source === 'hand' ? 'hand' : 'workers';
  return { ...stored, factors, at, ...(isShare(load) && { last: { load, source } }) };
}

function handOf(load: number | undefined, until: number | undefined, actor: string): Pick<StoredLoad, 'hand'> {
  return isShare(load) && until !== undefined ? { hand: { load, until, actor } } : {};
}

const isShare = (value: number | undefined): value is number => value !== undefined && value >= 0 && value <= 1;

function numberOf(text: string | undefined): number | undefined {
  const value = Number(text);
  return text === undefined || text === '' || !Number.isFinite(value) ? undefined : value;
}

/** What a person set and still holds. @param nowMs Redis ms */
export function handInForce({ hand }: Pick<StoredLoad, 'hand'>, nowMs: number): LoadByHand | undefined {
  return hand !== undefined && (hand.until === -1 || hand.until > nowMs) ? hand : undefined;
}

/**
 * Takes a step from what was read. Resolves to whether it was this call that took it: not before its time, nor after another one.
 *
 * @throws what Redis answers
 */
export async function stepLoad(
  client: RedisClient,
  keys: Keys,
  { seen }: Pick<StoredLoad, 'seen'>,
  { factors, load, source }: { readonly factors: Factors; readonly load: number; readonly source: LoadSource },
): Promise<boolean> {
  const to = [factors.window, factors.rate, load.toFixed(4), source];
  return (await runScript(client, step, [keys.load], [seen.at, seen.handAt, STEP_EVERY_MS, ...to])) === 1;
}

/** `until`: as of {@link LoadByHand}; 0 nothing is set. `before`: what was set and still held. */
export type LoadChanged = { readonly until: number; readonly nowMs: number; readonly before?: number };

/** Says what the load is, for `forMs` or (-1) until it is cleared. @throws what Redis answers */
export function setLoad(
  client: RedisClient,
  keys: Keys,
  load: number,
  forMs: number,
  actor: string,
): Promise<LoadChanged> {
  return change(client, keys, ['set', load, forMs, actor]);
}

/** Leaves the load to the workers again. @throws what Redis answers */
export function clearLoad(client: RedisClient, keys: Keys): Promise<LoadChanged> {
  return change(client, keys, ['clear', 0, 0, '']);
}

async function change(client: RedisClient, keys: Keys, args: readonly (string | number)[]): Promise<LoadChanged> {
  const reply = await runScript(client, byHand, [keys.load], args);
  const [until = 0, nowMs = 0, before = ''] = Array.isArray(reply) ? reply : [];
  return { until: Number(until), nowMs: Number(nowMs), ...(before === '' ? {} : { before: Number(before) }) };
}
