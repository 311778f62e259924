export type { OutcomeInput } from '../domain/outcome.js';
export { createPublisher, type PublisherOptions } from './create.js';
export { type DropReason, type Publisher, type PublisherCounts, publishTo } from './publisher.js';
export { didNotThrow, SUCCESS_CHECK_THREW, type TrackOptions } from './track.js';
