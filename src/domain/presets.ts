import type { PolicyRule } from './policy-schema.js';

/** What a rule was measured to do, by `npm run bench -- judgement`. */
export type Figures = {
  /** Traffic of the measurement; it matters where a window has a span. */
  readonly callsPerSecond: number;
  /** Blocks per million calls of a channel that steadily succeeds in 95, 90 and 80 %. 0: none in a million. */
  readonly falseBlocks: readonly [at95: number, at90: number, at80: number];
  /** Calls until the block, median, of a channel that drops from 99 % to 0 % and to 50 %. */
  readonly callsToBlock: readonly [at0: number, at50: number];
};

/** A policy that comes with the program: a channel names it as it would name one of the document's own. */
export type Preset = {
  /** In the words of the rules document. It never says a mode: a preset hides nothing that the document does not want hidden. */
  readonly rule: PolicyRule;
  /** Why these values, in one sentence. */
  readonly why: string;
  readonly figures: Figures;
};

const PRESETS: Readonly<Record<string, Preset>> = {
  core: {
    why: 'Busy and hard to replace: judged by the share of a whole 10 s, so that a bad moment hides nothing; dead, it is gone at the 10th failure in a row; back after 30 s, because each minute without it costs.',
    rule: {
      window: { kind: 'time', span: '10s', slots: 10, minCalls: 20 },
      successRate: 60,
      maxConsecutiveFailures: 9,
      block: { for: '30s', growth: 2, max: '10m' },
    },
    figures: { callsPerSecond: 10, falseBlocks: [0, 0, 1], callsToBlock: [10, 76] },
  },
  secondary: {
    why: 'Others take its place at once, so it goes early and stays away longer; a count window costs nothing while it is healthy.',
    rule: { window: 20, successRate: 60, block: { for: '5m', growth: 2, max: '1h' } },
    figures: { callsPerSecond: 10, falseBlocks: [0, 17, 1_939], callsToBlock: [9, 18] },
  },
  noncritical: {
    why: 'Trying a bad one harms nobody, and a needless alert at night does: only what is practically dead goes.',
    rule: { window: 50, successRate: 40, block: '10m', hold: '10m' },
    figures: { callsPerSecond: 10, falseBlocks: [0, 0, 0], callsToBlock: [31, 196] },
  },
  payments: {
    why: 'A failing payment loses the customer, and so does a missing one: the sequential test finds a dead channel in 8 calls at one false block in a million; what the payer did wrong does not count.',
    rule: {
      window: { kind: 'sequential', healthy: 90, failing: 50, falseBlocks: '1 per million' },
      block: { for: '2m', growth: 2, max: '30m' },
      ignore: ['USER_CANCELLED', 'CARD_*', 'card_*', 'INSUFFICIENT_*', 'insufficient_*', 'NOTENOUGH', 'USERPAYING'],
    },
    figures: { callsPerSecond: 10, falseBlocks: [0, 1, 699], callsToBlock: [8, 22] },
  },
  sms: {
    why: 'A few messages a minute make no share to judge by: the 5th failure in a row decides, and a log of the last hour finds what only limps; numbers that do not exist do not count.',
    rule: {
      window: { kind: 'log', span: '1h', minCalls: 10 },
      successRate: 60,
      maxConsecutiveFailures: 4,
      block: { for: '10m', growth: 2, max: '2h' },
      ignore: ['INVALID_NUMBER', 'UNSUBSCRIBED', 'isv.MOBILE_NUMBER_ILLEGAL', 'isv.BUSINESS_LIMIT_CONTROL'],
    },
    figures: { callsPerSecond: 1 / 60, falseBlocks: [0, 8, 292], callsToBlock: [5, 41] },
  },
  llm: {
    why: 'Models get slow before they fail, and say when they want to be left alone: half the calls over a minute block, and a time to wait is kept without an alert; prompts that are refused do not count.',
    rule: {
      window: { kind: 'time', span: '1m', slots: 12, minCalls: 10 },
      successRate: 60,
      maxConsecutiveFailures: 8,
      slowCall: '60s',
      slowRate: 50,
      rateLimited: { min: '1s', max: '5m' },
      block: { for: '1m', growth: 2, max: '15m' },
      ignore: ['context_length_exceeded', 'content_policy_violation', 'content_filter', 'invalid_request_error'],
    },
    figures: { callsPerSecond: 1, falseBlocks: [0, 0, 43], callsToBlock: [9, 48] },
  },
  login: {
    why: 'People fail more often than the provider does: 80 % counts as healthy, and whoever turns back or mistypes does not count.',
    rule: {
      window: { kind: 'sequential', healthy: 80, failing: 40, falseBlocks: '1 per million' },
      block: { for: '1m', growth: 2, max: '15m' },
      ignore: ['USER_CANCELLED', 'access_denied', 'login_required', 'consent_required', 'interaction_required'],
    },
    figures: { callsPerSecond: 10, falseBlocks: [0, 0, 0], callsToBlock: [12, 48] },
  },
};

/** In the order in which they are told to people. */
export const PRESET_NAMES: readonly string[] = Object.keys(PRESETS);

/** `undefined`: there is no preset of that name. */
export function presetOf(name: string): Preset | undefined {
  return Object.hasOwn(PRESETS, name) ? PRESETS[name] : undefined;
}
