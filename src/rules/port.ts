import type { Policy } from '../domain/policy.js';
import type { Receiver, Route } from '../domain/receiver.js';

/** The rules as every flow sees them: always whole, always the last good document, replaced at once when a new one arrives. */
export type LiveRules = {
  /** Version of the document in force; 0 when there is none (then every channel is in mode `observe`). */
  version(): number;
  /** The effective policy of a channel. Cached: called for every outcome's channel. */
  policyFor(channel: string): Policy;
  /** Fewest channels of a group that a reader shows, whatever their states; 0 for an unknown group. */
  minVisible(group: string): number;
  /** Channels named in the rules without a glob: readers keep these fresh even before anybody asks. */
  namedChannels(): readonly string[];
  /** Groups into which a pattern puts channels that the rules do not name. */
  patternGroups(): ReadonlySet<string>;
  receivers(): readonly Receiver[];
  routes(): readonly Route[];
  /** Called after each change, never for the first document. Returns the way to stop listening. */
  onChange(listener: () => void): () => void;
  close(): Promise<void>;
};

/** The rules for those who judge by the load: `hasDynamic` says whether any policy asks for it, so that otherwise it costs nothing. */
export type DynamicRules = LiveRules & { hasDynamic(): boolean };

/**
 * Where a document of rules may come from, other than `fuseline:config` itself: a file, a function, a configuration centre. The
 * process that has a source puts its document into `fuseline:config`; every process lives off that key, and no other needs the source.
 */
export type RulesSource = {
  /** Told as the actor of what it puts: never a secret, never a URL's path. */
  readonly name: string;
  /** How long to wait between two looks. */
  readonly everyMs: number;
  /**
   * Looks once. `undefined`: nothing new since the last look that returned something. Otherwise the document, as text (YAML or JSON)
   * or value, not yet checked. Rejects when the source cannot be read; the last good document then stays.
   */
  read(signal: AbortSignal): Promise<{ readonly document: unknown } | undefined>;
};

/** What we need of a logger; pino is one. */
export type RulesLogger = {
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
};
