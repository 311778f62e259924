import { isEmptyDocument } from '../domain/rules.js';
import type { Problem } from '../domain/rules-problems.js';
import { type RedisClient, whenReady } from '../redis/client.js';
import { withDeadline } from '../redis/deadline.js';
import type { Keys } from '../redis/keys.js';
import { diffRules } from './diff.js';
import { LiveDocument } from './live-document.js';
import type { DynamicRules, RulesLogger, RulesSource } from './port.js';
import { repeat } from './repeat.js';
import { SourceFeeder } from './source-feeder.js';
import { judgeStored, readStored, type StoredRules, sha1 } from './stored.js';

/** How often every process looks at `fuseline:config`. */
export const RULES_POLL_MS = 500;
/** Refusals remembered, so that each distinct bad document is told once. */
const REFUSALS_MOST = 100;

export type LiveRulesOptions = {
  /** Purpose `commands`. Stays the caller's: not closed here. */
  readonly client: RedisClient;
  readonly keys: Keys;
  /** A document that this process puts into `fuseline:config` at its start, and whenever it changes there. */
  readonly source?: RulesSource;
  readonly logger?: RulesLogger;
  readonly pollMs?: number;
  /** For one look at Redis. */
  readonly deadlineMs?: number;
  /** How long the start waits for a Redis that is away, before it goes on with the defaults. */
  readonly startWithinMs?: number;
};

/** The rules out of Redis. */
export type PolledRules = DynamicRules & {
  /** Whether Redis has been asked successfully at least once. Before that the rules are the defaults (`observe`), for want of better. */
  loaded(): boolean;
  /** Resolves when {@link loaded}; rejects on the signal. For processes that must not judge by the defaults. */
  whenLoaded(signal?: AbortSignal): Promise<void>;
  /** One look at Redis, as the poll does it. Never rejects: the last good document stays. */
  refresh(): Promise<void>;
};

/**
 * The rules in force, followed until `close`. Every process lives off `fuseline:config` and looks at it every 500 ms; a bad document
 * there is refused whole and told once, and the last good one stays; so it does when Redis is away. A key that is suddenly empty is
 * no new document either: what would switch all blocks off must be confirmed (see `setRules`). Timers do not keep the process alive.
 *
 * Resolves after the first look, or when Redis stayed away for `startWithinMs`; it then heals by itself.
 */
export async function createLiveRules(options: LiveRulesOptions): Promise<PolledRules> {
  const rules = new RedisRules(options);
  await rules.start(options.startWithinMs ?? 2_000);
  return rules;
}

class RedisRules extends LiveDocument implements PolledRules {
  readonly #options: LiveRulesOptions;
  readonly #log: RulesLogger;
  readonly #feeder: SourceFeeder | undefined;
  readonly #stop = new AbortController();
  readonly #loops: Promise<void>[] = [];
  readonly #refusals = new Set<string>();
  readonly #waiting = new Set<() => void>();
  /** What the last look found, judged or refused; `undefined` before the first. */
  #seen: string | null | undefined;
  /** The text of the document in force, and its value for the diff. */
  #applied: StoredRules | undefined;
  #away = false;

  constructor(options: LiveRulesOptions) {
    const log = options.logger ?? SILENT;
    super((error) => log.error({ err: error }, 'a listener of the rules threw'));
    this.#options = options;
    this.#log = log;
    if (options.source !== undefined) this.#feeder = new SourceFeeder(options.source, options, log, this.#stop.signal);
  }

  async start(startWithinMs: number): Promise<void> {
    const patience = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(startWithinMs)]);
    await whenReady(this.#options.client, patience).catch(() => {});
    await this.#feeder?.look();
    await this.refresh();
    const pollMs = this.#options.pollMs ?? RULES_POLL_MS;
    this.#loops.push(
      repeat(
        async () => {
          await this.refresh();
          return pollMs;
        },
        pollMs,
        this.#stop.signal,
      ),
    );
    const feeder = this.#feeder;
    if (feeder === undefined) return;
    const feed = async () => {
      const { put, waitMs } = await feeder.look();
      if (put) await this.refresh();
      return waitMs;
    };
    this.#loops.push(repeat(feed, feeder.everyMs, this.#stop.signal));
  }

  loaded(): boolean {
    return this.#seen !== undefined;
  }

  whenLoaded(signal?: AbortSignal): Promise<void> {
    if (this.loaded()) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        this.#waiting.delete(onLoad);
        reject(signal?.reason);
      };
      const onLoad = () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      };
      if (signal?.aborted) return onAbort();
      this.#waiting.add(onLoad);
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  }

  async refresh(): Promise<void> {
    let text: string | null;
    try {
      const { client, keys, deadlineMs = 400 } = this.#options;
      text = await withDeadline(client.get(keys.config), deadlineMs, 'GET of the rules');
    } catch (error) {
      if (!this.#away)
        this.#log.warn({ err: error }, 'the rules cannot be read from Redis; the last good ones stay in force');
      this.#away = true;
      return;
    }
    if (this.#away) this.#log.info({}, 'the rules can be read from Redis again');
    this.#away = false;
    if (text === this.#seen) return;
    this.#seen = text;
    this.#take(text);
    for (const done of this.#waiting) done();
    this.#waiting.clear();
  }

  override async close(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#loops);
    await super.close();
  }

  #take(text: string | null): void {
    if (text !== null && text === this.#applied?.text) return;
    const stored = text === null ? undefined : readStored(text);
    if (
      stored === undefined ||
      (isEmptyDocument(stored.document) && stored.unreadable === undefined && !stored.confirmedEmpty)
    ) {
      this.#takeNothing();
      return;
    }
    const judged = judgeStored(stored);
    if (!judged.ok) {
      this.#refuse(stored.text, judged.problems);
      return;
    }
    const diff = diffRules(this.#applied?.document, stored.document);
    this.#applied = stored;
    for (const { path, message } of judged.warnings)
      this.#log.warn({ path }, `rules: ${path === '' ? message : `${path}: ${message}`}`);
    this.#log.info(
      { version: judged.rules.version, actor: stored.actor, changed: diff.map(({ path }) => path).slice(0, 20) },
      'rules in force',
    );
    this.apply(judged.rules);
  }

  #takeNothing(): void {
    this.#feeder?.putAgain();
    const { config } = this.#options.keys;
    if (this.current().empty) {
      this.#log.warn(
        {},
        `there are no rules under ${config}: every channel is observed with the defaults, none is blocked`,
      );
    } else {
      const version = this.version();
      this.#log.warn(
        { version },
        `${config} is empty now; version ${version} stays in force, because emptying the rules must be confirmed`,
      );
    }
  }

  #refuse(text: string, problems: readonly Problem[]): void {
    const name = sha1(text);
    if (this.#refusals.has(name)) return;
    if (this.#refusals.size >= REFUSALS_MOST) this.#refusals.clear();
    this.#refusals.add(name);
    this.#log.error(
      { problems },
      `${this.#options.keys.config} is refused as a whole; version ${this.version()} stays in force`,
    );
  }
}

const SILENT: RulesLogger = { info() {}, warn() {}, error() {} };
