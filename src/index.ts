export { type Checked, type Checker, type CheckerOptions, createChecker } from './checker/checker.js';
export { ChannelNameError, canonicalChannel } from './domain/channel-name.js';
export { isIgnoredByDefault } from './domain/ignored-codes.js';
export { Outcome, type OutcomeInput } from './domain/outcome.js';
export type { Policy } from './domain/policy.js';
export { shardOf } from './domain/shard.js';
export { type State, Transition, type TransitionKind } from './domain/transition.js';
export type { Trial } from './domain/trial.js';
export { createFuseline, type Fuseline, type FuselineOptions, type FuselineStatus } from './fuseline.js';
export type { Admission, AdmitOptions } from './guard/admit.js';
export { ChannelBlockedError, ChannelTimeoutError } from './guard/errors.js';
export type { Guard, GuardOptions } from './guard/guard.js';
export type { PermitCounts } from './guard/lender.js';
export type { GuardedCall } from './guard/timeout.js';
export {
  createPublisher,
  didNotThrow,
  type Publisher,
  type PublisherOptions,
  type TrackOptions,
} from './publisher/index.js';
export {
  type ChannelState,
  createReader,
  type Reader,
  type ReaderOptions,
  type Selection,
  type SelectOptions,
} from './reader/index.js';
export { openRedis } from './redis/client.js';
export { Keys } from './redis/keys.js';
export { createLiveRules } from './rules/live.js';
export { parseRules } from './rules/parse.js';
export type { LiveRules, RulesSource } from './rules/port.js';
export { fileSource, functionSource, httpSource } from './rules/sources.js';
export { SettingsError } from './settings/load.js';
