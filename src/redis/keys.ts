/** The eight keys of one channel, in the order in which every script declares them. All share the hash tag `{channel}`. */
export type ChannelKeys = readonly [
  health: string,
  blocked: string,
  state: string,
  fence: string,
  outbox: string,
  evidence: string,
  slots: string,
  calls: string,
];

/**
 * Every key that Fuseline touches: a public contract, explained in `docs/keys.md`. A new key is a line here and a row there.
 * Names are built here alone, never inside Lua.
 */
export class Keys {
  /** Comes before every key; `''` by default. Must not hold braces: they would take the place of the hash tag. */
  readonly prefix: string;

  /** @throws {Error} braces in the prefix */
  constructor(prefix = '') {
    if (/[{}]/.test(prefix)) throw new Error(`the key prefix must not hold "{" or "}", got ${JSON.stringify(prefix)}`);
    this.prefix = prefix;
  }

  channel(name: string): ChannelKeys {
    const key = (kind: string) => `${this.prefix}channel_${kind}:{${name}}`;
    const names = ['health', 'blocked', 'state', 'fence', 'outbox', 'evidence', 'slots', 'calls'];
    return names.map(key) as unknown as ChannelKeys;
  }

  blocked(channel: string): string {
    return `${this.prefix}channel_blocked:{${channel}}`;
  }

  state(channel: string): string {
    return `${this.prefix}channel_state:{${channel}}`;
  }

  /** Permits lent for calls to a half-open channel. Not one of the keys that judge. */
  permits(channel: string): string {
    return `${this.prefix}channel_permits:{${channel}}`;
  }

  /** Shard n of the outcome log; its lease lies in the same slot, so that commit can check it. */
  outcomes(shard: number): string {
    return `${this.prefix}fuseline:outcomes:{${shard}}`;
  }

  lease(shard: number): string {
    return `${this.prefix}fuseline:lease:{${shard}}`;
  }

  stats(worker: string): string {
    return `${this.prefix}fuseline:stats:${worker}`;
  }

  get workers(): string {
    return `${this.prefix}fuseline:workers`;
  }

  get log(): string {
    return `${this.prefix}fuseline:log`;
  }

  get shards(): string {
    return `${this.prefix}fuseline:shards`;
  }

  get feed(): string {
    return `${this.prefix}fuseline:transitions`;
  }

  get incidents(): string {
    return `${this.prefix}fuseline:incidents`;
  }

  /** Every change by hand, and those of other programs. */
  get audit(): string {
    return `${this.prefix}fuseline:audit`;
  }

  /** Groups whose floor bites, or did a moment ago. */
  get floors(): string {
    return `${this.prefix}fuseline:floors`;
  }

  /** By how much judging is more patient under load, and the load that it goes by. */
  get load(): string {
    return `${this.prefix}fuseline:load`;
  }

  get dead(): string {
    return `${this.prefix}fuseline:dead`;
  }

  get agenda(): string {
    return `${this.prefix}fuseline:agenda`;
  }

  get config(): string {
    return `${this.prefix}fuseline:config`;
  }

  /** Earlier versions of the rules, newest first, for `rules history` and `rules rollback`. */
  get configHistory(): string {
    return `${this.prefix}fuseline:config:history`;
  }

  /** What a receiver of alerts has been told, per channel. One key: decided by one script. */
  told(receiver: string): string {
    return `${this.prefix}fuseline:told:${receiver}`;
  }

  /** BullMQ's own prefix; the braces keep each queue's keys in one slot of a cluster. */
  get queues(): string {
    return `${this.prefix}{fuseline}`;
  }
}
