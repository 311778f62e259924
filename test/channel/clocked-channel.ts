import type { Redis } from 'ioredis';
import { readOutbox, splitReply } from '../../src/channel/outbox.js';
import { policyArgs } from '../../src/channel/policy-args.js';
import { readReply, recordArgs } from '../../src/channel/record.js';
import { type ChannelBatch, NOTHING_RECORDED, type RecordResult } from '../../src/domain/batch.js';
import type { Policy } from '../../src/domain/policy.js';
import type { Transition } from '../../src/domain/transition.js';
import type { Keys } from '../../src/redis/keys.js';
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

  async takeTransitions(): Promise<Transition[]> {
    const outbox = this.#keys[4]!;
    const texts = await this.#client.lrange(outbox, 0, -1);
    await this.#client.del(outbox);
    return readOutbox(this.#channel, texts);
  }

  async view(now: number) {
    await this.expire(now);
    const [health, blocked, state, , , , counts] = this.#keys as [
      string,
      string,
      string,
      string,
      string,
      string,
      string,
    ];
    const [slots, keyThere, fields, perSlot] = await Promise.all([
      this.#client.lrange(health, 0, -1),
      this.#client.exists(blocked),
      this.#client.hgetall(state),
      this.#client.hgetall(counts),
    ]);
    return {
      state: fields.state ?? 'closed',
      blocked: keyThere === 1,
      since: Number(fields.since ?? 0),
      until: Number(fields.until ?? 0),
      window: slots.map((slot) => slot === '1'),
      slots: new Map(
        Object.entries(perSlot)
          .filter(([name]) => !name.startsWith('@'))
          .map(([slot, value]) => [Number(slot), value.split('|').map(Number)]),
      ),
      epoch: Number(fields.epoch ?? 0),
      shadow: fields['shadow.state'] ?? 'closed',
    };
  }

  /** Deletes what would have expired. Not the block key: a script must see an end that nobody has noticed yet. */
  async expire(now: number): Promise<void> {
    const [health, , state, fence, , evidence, counts] = this.#keys as [
      string,
      string,
      string,
      string,
      string,
      string,
      string,
    ];
    for (const key of [health, state, fence, evidence, counts]) {
      const at = await this.#client.pexpiretime(key);
      if (at >= 0 && at <= now) await this.#client.del(key);
    }
  }

  #policyArgs(policy: Policy): (string | number)[] {
    return policyArgs(policy, this.#freshForMs);
  }

  async #run(name: string, now: number, args: (string | number)[]): Promise<ScriptReply> {
    await this.expire(now);
    const clock = `{ '${Math.floor(now / 1000)}', '${(now % 1000) * 1000}' }`;
    const source = loadScript(name).source.replaceAll("redis.call('TIME')", clock);
    return (await this.#client.eval(source, this.#keys.length, ...this.#keys, ...args)) as ScriptReply;
  }
}
