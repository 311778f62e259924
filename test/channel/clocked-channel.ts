import type { Redis } from 'ioredis';
import { expect } from 'vitest';
import { readOutbox, splitReply } from '../../src/channel/outbox.js';
import { policyArgs } from '../../src/channel/policy-args.js';
import { readReply, recordArgs } from '../../src/channel/record.js';
import { type ChannelBatch, NOTHING_RECORDED, type RecordResult } from '../../src/domain/batch.js';
import type { Policy } from '../../src/domain/policy.js';
import type { Transition } from '../../src/domain/transition.js';
import type { Calls, StoredWindow } from '../../src/domain/window/window.js';
import type { ChannelKeys, Keys } from '../../src/redis/keys.js';
import { loadScript, type ScriptReply } from '../../src/redis/script.js';

/**
 * The real scripts on a real Redis under a clock of the test's own: only the text `redis.call('TIME')` is replaced. The clock runs
 * ahead of the server's, so what expires by it is deleted here, where the server would have done so.
 */
export class ClockedChannel {
  readonly #client: Redis;
  readonly #keys: readonly string[];
  readonly #channel: string;
  readonly #freshForMs: number;

  constructor(client: Redis, keys: Keys, channel: string, freshForMs: number) {
    this.#client = client;
    this.#keys = keys.channel(channel);
    this.#channel = channel;
    this.#freshForMs = freshForMs;
  }

  async record(policy: Policy, batch: ChannelBatch, now: number): Promise<RecordResult> {
    const reply = await this.#run('record', now, recordArgs(policy, this.#freshForMs, batch));
    return reply === 0 ? NOTHING_RECORDED : readReply(this.#channel, reply).result;
  }

  async recover(policy: Policy, now: number): Promise<number> {
    return splitReply(await this.#run('recover', now, [...this.#policyArgs(policy), 0, 0, '', 1, 0]), 3).numbers[1]!;
  }

  async override(policy: Policy, now: number, action: 'block' | 'unblock', forMs: number): Promise<void> {
    await this.#run('override', now, [...this.#policyArgs(policy), action, forMs, 'ann', 'because']);
  }

  /** Calls removed from a call log. */
  async tidy(now: number, spanMs: number, most: number): Promise<number> {
    const [, , , , , , slots, calls] = this.#keys as ChannelKeys;
    return Number(await this.#run('tidy', now, [spanMs, this.#freshForMs, most], [slots, calls]));
  }

  /** When to look next, as `settle.lua` reads it from the state: whoever announces must not know another time than whoever looks. */
  async dueAfterSettling(now: number): Promise<number> {
    await this.expire(now);
    const [, , state, , outbox] = this.#keys as ChannelKeys;
    return splitReply((await this.#client.eval(loadScript('settle').source, 2, outbox, state)) as ScriptReply, 3)
      .numbers[1]!;
  }

  async takeTransitions(): Promise<Transition[]> {
    const outbox = this.#keys[4]!;
    const texts = await this.#client.lrange(outbox, 0, -1);
    await this.#client.del(outbox);
    return readOutbox(this.#channel, texts);
  }

  async view(now: number) {
    await this.expire(now);
    const [health, blocked, state, , , , slots, calls] = this.#keys as ChannelKeys;
    const [list, keyThere, fields, hash, members] = await Promise.all([
      this.#client.lrange(health, 0, -1),
      this.#client.exists(blocked),
      this.#client.hgetall(state),
      this.#client.hgetall(slots),
      this.#client.zrange(calls, '0', '-1', 'WITHSCORES'),
    ]);
    return {
      state: fields.state ?? 'closed',
      blocked: keyThere === 1,
      since: Number(fields.since ?? 0),
      until: Number(fields.until ?? 0),
      window: list.join(''),
      stored: storedOf(hash, members),
      epoch: Number(fields.epoch ?? 0),
      shadow: fields['shadow.state'] ?? 'closed',
    };
  }

  /** Deletes what would have expired. Not the block key: a script must see an end that nobody has noticed yet. */
  async expire(now: number): Promise<void> {
    const [health, , state, fence, , evidence, slots, calls] = this.#keys as ChannelKeys;
    for (const key of [health, state, fence, evidence, slots, calls]) {
      const at = await this.#client.pexpiretime(key);
      if (at >= 0 && at <= now) await this.#client.del(key);
    }
  }

  #policyArgs(policy: Policy): (string | number)[] {
    return policyArgs(policy, this.#freshForMs);
  }

  async #run(name: string, now: number, args: (string | number)[], keys = this.#keys): Promise<ScriptReply> {
    await this.expire(now);
    // By argument, so that the source stays the same: a server keeps every source that it ever compiled.
    const source = loadScript(name).source.replaceAll("redis.call('TIME')", '{ ARGV[#ARGV - 1], ARGV[#ARGV] }');
    const clock = [Math.floor(now / 1_000), (now % 1_000) * 1_000];
    return (await this.#client.eval(source, keys.length, ...keys, ...args, ...clock)) as ScriptReply;
  }
}

/** A window of another kind than count, as the model tells it. */
function storedOf(hash: Record<string, string>, members: string[]): StoredWindow | undefined {
  if (Object.keys(hash).length === 0) {
    if (members.length > 0) throw new Error(`a call log without its counts: ${members.join(' ')}`);
    return undefined;
  }
  const number = (name: string) => Number(hash[name]);
  if (hash['@test'] !== undefined) {
    const [score, calls, failures, slow] = ['@score', '@calls', '@failures', '@slow'].map(number) as [
      number,
      number,
      number,
      number,
    ];
    return { kind: 'sequential', test: hash['@test'], score, calls, failures, slow };
  }
  if (hash['@log'] !== undefined) {
    const calls = members.flatMap((member, i) =>
      i % 2 === 0 ? [[Number(members[i + 1]), member.split(':')[1] as Calls] as const] : [],
    );
    const kept = (result: Calls) => calls.filter(([, each]) => each === result).length;
    expect([number('@successes'), number('@failures'), number('@slow')]).toEqual([kept('1'), kept('0'), kept('3')]);
    return { kind: 'log', calls, newest: number('@newest') };
  }
  const slots = Object.entries(hash).filter(([name]) => !name.startsWith('@'));
  const counts = slots.map(([slot, text]): [number, [number, number, number]] => {
    const [good = 0, bad = 0, slow = 0] = text.split('|').map(Number);
    return [Number(slot), [good, bad, slow]];
  });
  return { kind: 'time', lengthMs: number('@length'), counts: new Map(counts), newest: number('@newest') };
}
