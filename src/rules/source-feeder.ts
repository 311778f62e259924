import { isEmptyDocument } from '../domain/rules.js';
import type { Problem } from '../domain/rules-problems.js';
import { backoffMs } from '../redis/deadline.js';
import { readText } from './parse.js';
import type { RulesLogger, RulesSource } from './port.js';
import { getRules, type RulesStore, sameDocument, setRules } from './store.js';

const CONFLICTS_MOST = 10;
const WAIT_MOST_MS = 5_000;

/**
 * Brings what a source holds into `fuseline:config`: at the start, whenever the source changes, and when the key got lost. Between
 * those moments a document that somebody else puts there stays. Each fault of the source is told once.
 */
export class SourceFeeder {
  readonly everyMs: number;
  readonly #source: RulesSource;
  readonly #store: RulesStore;
  readonly #log: RulesLogger;
  readonly #signal: AbortSignal;
  /** What the source gave last, as text, to tell what is new. */
  #last: string | undefined;
  /** The value to put, once it is known to be readable; kept after it was put, for {@link putAgain}. */
  #document: unknown;
  #pending = false;
  #failures = 0;
  #lastFailure = '';

  constructor(
    source: RulesSource,
    store: { client: RulesStore['client']; keys: RulesStore['keys'] },
    log: RulesLogger,
    signal: AbortSignal,
  ) {
    this.everyMs = source.everyMs;
    this.#source = source;
    this.#store = { client: store.client, keys: store.keys };
    this.#log = log;
    this.#signal = signal;
  }

  /** One look at the source, and the put if there is something to put. Never rejects. `waitMs`: until the next look. */
  async look(): Promise<{ put: boolean; waitMs: number }> {
    try {
      const answer = await this.#source.read(this.#signal);
      if (answer !== undefined) this.#take(answer.document);
      const put = this.#pending && (await this.#put());
      if (this.#failures > 0) this.#log.info({ source: this.#source.name }, 'the source of the rules works again');
      this.#failures = 0;
      this.#lastFailure = '';
      return { put, waitMs: this.everyMs };
    } catch (error) {
      if (!this.#signal.aborted) this.#fail(error);
      return { put: false, waitMs: backoffMs(this.#failures, this.everyMs, WAIT_MOST_MS) };
    }
  }

  /** The key is gone: whoever has a source puts its document there again. */
  putAgain(): void {
    this.#pending = this.#document !== undefined;
  }

  #take(document: unknown): void {
    const text = typeof document === 'string' ? document : textOf(document);
    if (text === this.#last) return;
    this.#last = text;
    this.#pending = false;
    const read = typeof document === 'string' ? readText(document) : { ok: true as const, value: document };
    if (!read.ok) this.#refuse(read.problems);
    else if (isEmptyDocument(read.value)) this.#refuseEmpty();
    else {
      this.#document = read.value;
      this.#pending = true;
    }
  }

  async #put(): Promise<boolean> {
    for (let attempt = 0; attempt < CONFLICTS_MOST; attempt += 1) {
      const current = await getRules(this.#store);
      if (current !== undefined && sameDocument(current, this.#document)) break;
      const expectedVersion = current?.version ?? 0;
      const result = await setRules(this.#store, {
        expectedVersion,
        document: this.#document,
        actor: this.#source.name,
      });
      if (!result.ok && result.reason === 'conflict') continue;
      this.#pending = false;
      if (result.ok) return result.changed;
      if (result.reason === 'invalid') this.#refuse(result.problems);
      return false;
    }
    this.#pending = false;
    return false;
  }

  #refuse(problems: readonly Problem[]): void {
    this.#document = undefined;
    this.#log.error(
      { source: this.#source.name, problems },
      `the rules of ${this.#source.name} are refused as a whole; those in force stay`,
    );
  }

  #refuseEmpty(): void {
    this.#document = undefined;
    this.#log.warn(
      { source: this.#source.name },
      `${this.#source.name} holds no rules; those in force stay, because emptying them must be confirmed`,
    );
  }

  #fail(error: unknown): void {
    this.#failures += 1;
    // The message alone: an error of Redis carries its command, and with it the whole document.
    const message = error instanceof Error ? error.message : String(error);
    if (message === this.#lastFailure) return;
    this.#lastFailure = message;
    this.#log.warn(
      { source: this.#source.name },
      `the rules of ${this.#source.name} cannot be brought into force yet: ${message}`,
    );
  }
}

function textOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? '';
  } catch {
    return 'not plain data';
  }
}
