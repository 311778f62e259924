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
  receivers(): readonly Receiver[];
  routes(): readonly Route[];
  /** Called after each change, never for the first document. Returns the way to stop listening. */
  onChange(listener: () => void): () => void;
  close(): Promise<void>;
};
