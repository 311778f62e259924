import type { Policy } from '../domain/policy.js';
import type { BlockEnd, Transition } from '../domain/transition.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { loadScript, runScript } from '../redis/script.js';
import { readOutbox, splitReply } from './outbox.js';
import { policyArgs } from './policy-args.js';

const recoverScript = loadScript('recover');
const settleScript = loadScript('settle');

/**
 * What a look at a channel found. `dueAt`: when to look next, Redis ms; 0 when nothing is left to wait for, -1 when only foreign
 * hands can end it. `nowMs`: Redis time.
 */
export type Look = {
  readonly pushed: number;
  readonly dueAt: number;
  readonly nowMs: number;
  readonly outbox: readonly Transition[];
};

/**
 * Takes every change of a channel whose time has come. Compare-and-set inside: of any number of callers one makes the change.
 *
 * @param end given by a recovery job: with neither state nor block key left, the end is told from it (reason `state lost`)
 */
export async function recover(
  client: RedisClient,
  keys: Keys,
  channel: string,
  policy: Policy,
  freshForMs: number,
  end?: BlockEnd,
): Promise<Look> {
  const job = [end?.block ?? 0, end?.until ?? 0, end?.incident ?? '', end?.trips ?? 1, end?.blockedAt ?? 0];
  const reply = await runScript(client, recoverScript, keys.channel(channel), [
    ...policyArgs(policy, freshForMs),
    ...job,
  ]);
  const { numbers, texts } = splitReply(reply, 3);
  const [pushed, dueAt, nowMs] = numbers as [number, number, number];
  return { pushed, dueAt, nowMs, outbox: readOutbox(channel, texts) };
}

/** Takes announced transitions out of the outbox, by epoch. `left` counts those that came meanwhile. */
export async function settle(
  client: RedisClient,
  keys: Keys,
  channel: string,
  epochs: readonly number[],
): Promise<{ left: number; dueAt: number; nowMs: number }> {
  const [, , state, , outbox] = keys.channel(channel);
  const reply = await runScript(client, settleScript, [outbox, state], epochs.map(String));
  const [left, dueAt, nowMs] = splitReply(reply, 3).numbers as [number, number, number];
  return { left, dueAt, nowMs };
}
