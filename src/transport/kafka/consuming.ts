import type { BatchHandler } from '../port.js';
import type { KnownLogParts } from './known-log.js';
import type { TopicView } from './topic-view.js';

/** What a partition keeps over all consumers. */
export type PartitionParts = KnownLogParts & {
  readonly count: (name: string, by?: number) => void;
  /** At most a line a second, for what repeats. */
  readonly warn: (facts: object, message: string) => void;
  /** Never left out. */
  readonly tell: (facts: object, message: string) => void;
};

/** What one consumer lends to its partitions. */
export type Consuming = {
  readonly handler: BatchHandler;
  readonly signal: AbortSignal;
  readonly view: TopicView;
  /** Whether entries carry the log's own clock, by which another log can be told from this one. */
  readonly logClock: boolean;
  /** Reads on from this offset; whatever is on its way from elsewhere is not handed over. */
  readonly seek: (partition: number, offset: bigint) => void;
};
