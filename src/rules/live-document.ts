import type { Policy } from '../domain/policy.js';
import type { Receiver, Route } from '../domain/receiver.js';
import { parseRulesValue, type Rules } from '../domain/rules.js';
import type { Problem } from '../domain/rules-problems.js';
import { parseRules } from './parse.js';
import type { DynamicRules } from './port.js';

/** Rules refused as a whole; `problems` names every broken item. */
export class RulesError extends Error {
  override readonly name = 'RulesError';
  readonly problems: readonly Problem[];
  constructor(problems: readonly Problem[]) {
    super(
      `the rules are refused: ${problems.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`)).join('; ')}`,
    );
    this.problems = problems;
  }
}

/** Holds the document in force and tells who listens when it is replaced. Nothing here knows where documents come from. */
export class LiveDocument implements DynamicRules {
  #rules: Rules = noRules();
  readonly #listeners = new Set<() => void>();
  readonly #onListenerError: (error: unknown) => void;

  constructor(onListenerError: (error: unknown) => void = () => {}) {
    this.#onListenerError = onListenerError;
  }

  /** Replaces the document at once and whole. A listener that throws harms neither the rules nor the other listeners. */
  apply(rules: Rules): void {
    this.#rules = rules;
    for (const listener of this.#listeners) {
      try {
        listener();
      } catch (error) {
        this.#onListenerError(error);
      }
    }
  }

  /** The document in force, checked and resolved. */
  current(): Rules {
    return this.#rules;
  }

  version(): number {
    return this.#rules.version;
  }

  policyFor(channel: string): Policy {
    return this.#rules.policyFor(channel);
  }

  minVisible(group: string): number {
    return this.#rules.minVisible(group);
  }

  namedChannels(): readonly string[] {
    return this.#rules.namedChannels;
  }

  patternGroups(): ReadonlySet<string> {
    return this.#rules.patternGroups;
  }

  hasDynamic(): boolean {
    return this.#rules.hasDynamic;
  }

  receivers(): readonly Receiver[] {
    return this.#rules.receivers;
  }

  routes(): readonly Route[] {
    return this.#rules.routes;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async close(): Promise<void> {
    this.#listeners.clear();
  }
}

/** Rules that live in this process alone, for fakes and tests; `replace` changes them as a poll would. */
export type FixedRules = DynamicRules & {
  /** @throws {RulesError} the document is refused; the one before stays */
  replace(textOrValue: unknown): void;
};

/** @throws {RulesError} the document is refused */
export function fixedRules(textOrValue: unknown): FixedRules {
  const live = new LiveDocument();
  const replace = (document: unknown) => {
    const parsed = parseRules(document);
    if (!parsed.ok) throw new RulesError(parsed.problems);
    live.apply(parsed.rules);
  };
  replace(textOrValue);
  return Object.assign(live, { replace });
}

function noRules(): Rules {
  const parsed = parseRulesValue(undefined);
  if (!parsed.ok) throw new RulesError(parsed.problems);
  return parsed.rules;
}
