import type { SequentialTest } from './window/sequential-test.js';

/**
 * A resolved policy: what one channel is judged by. Numbers in milliseconds; the success rate in hundredths of a percent, so that
 * every comparison is one of integers (a rate of 70 % is 7,000). Made from the rules document, believed everywhere inside.
 */
export type Policy = {
  /** `on` judges and hides; `observe` judges and announces "would have blocked"; `off` is not judged and never hidden. */
  readonly mode: Mode;
  readonly window: Window;
  /** Below this share of successes the channel is blocked. Hundredths of a percent, 0 to 10,000; 0 never blocks. */
  readonly successRate: number;
  readonly block: BlockLength;
  /** How long a closed channel is watched: a block within it is a relapse of the same incident. 0: not watched. */
  readonly holdMs: number;
  /** Codes (globs with `*` alone) whose outcomes do not count: the user's own mistakes must not blame the channel. */
  readonly ignore: readonly string[];
  /** Codes that decide against what the caller said: a refusal that came with status 200, a "paid already" that came as an error. */
  readonly codes?: { readonly success: readonly string[]; readonly failure: readonly string[] };
  readonly slow?: SlowCalls;
  /** Below so many failures in the window the success rate blocks nothing. */
  readonly minFailures?: number;
  /** More failures than this in the window block, whatever the rate; only in windows that have a span. */
  readonly maxFailures?: number;
  /** More failures in a row than this block, whatever the rate. */
  readonly maxConsecutiveFailures?: number;
  /** The last failures (20 at most) must come from at least so many sources; otherwise people are told instead. */
  readonly minSources?: number;
  /** What comes between a block and full use. */
  readonly halfOpen?: HalfOpen;
  /** At its end a block goes on, with a reminder, until a person unblocks. */
  readonly isReleasedByHand?: boolean;
  /** How far the channel is degraded while it is in use: below `line` (hundredths of a percent) it is at that level; the lowest line first. */
  readonly levels?: readonly { readonly name: string; readonly line: number }[];
  /** Judged with more patience while the workers are under load (`scaledPolicy`). */
  readonly isDynamic?: boolean;
  /** An outcome that names a time to wait hides the channel for it, within these bounds. */
  readonly rateLimit?: { readonly minMs: number; readonly maxMs: number };
  /** Group whose `minVisible` floor the channel belongs to. */
  readonly group?: string;
};

export type Mode = 'on' | 'observe' | 'off';

/** A union by `kind`, so that another kind of window is another member here and another function in Lua. */
export type Window =
  | { readonly kind: 'count' /** Slots, 1 to 1,000. */; readonly size: number }
  | {
      readonly kind: 'time';
      readonly spanMs: number;
      /** Slots of equal length into which the span is cut. */
      readonly slots: number;
      /** Below so many calls in the window nothing is judged. */
      readonly minCalls: number;
    }
  | {
      readonly kind: 'log';
      readonly spanMs: number;
      readonly minCalls: number;
      /** Most calls kept; beyond it the oldest go. */
      readonly maxEntries: number;
    }
  | ({
      readonly kind: 'sequential';
      /** Shares of successes between which the test decides, hundredths of a percent. */
      readonly healthy: number;
      readonly failing: number;
      /** False blocks per call of a channel that is exactly healthy. */
      readonly falseBlocks: number;
    } & SequentialTest);

/** A trial of a channel before it is in full use again. */
export type HalfOpen = {
  /** Share of users let through at each step, hundredths of a percent; 0 at the first: `permits` calls at once instead. */
  readonly steps: readonly number[];
  readonly permits: number;
  /** Good outcomes that end a step; after the last the channel is closed. */
  readonly close: number;
  /** With fewer of them by then the channel is closed, or blocked again. */
  readonly waitMs: number;
  readonly reopens: boolean;
};

/** A call longer than `overMs` is slow: it counts as a failure, or has a threshold of its own. */
export type SlowCalls = {
  readonly overMs: number;
  /** More slow calls than this share block: hundredths of a percent of the window. Absent: a slow call is a failure. */
  readonly rate?: number;
};

export type BlockLength = {
  readonly forMs: number;
  /** Factor per relapse, 1 or more. */
  readonly growth: number;
  /** No block is longer than this, whatever the growth. */
  readonly maxMs: number;
  /** Share of the length by which it may be longer or shorter, 0 to 0.5: so that channels do not come back all at once. */
  readonly jitter?: number;
  /** Once three outages are known, the first block of an incident is so many times the mean of the last ten, and at least `minMs`. */
  readonly ofPast?: { readonly timesMean: number; readonly minMs: number };
};

/** So many outages must be known before their mean says anything. */
export const PAST_LEAST = 3;

export const DEFAULT_POLICY: Policy = {
  mode: 'observe',
  window: { kind: 'count', size: 10 },
  successRate: 7_000,
  block: { forMs: 30 * 60_000, growth: 1, maxMs: 4 * 3_600_000 },
  holdMs: 30 * 60_000,
  ignore: [],
};

/** How long an untouched window lives: the block's length and half an hour (the window of a channel that went quiet is no news). */
export function windowTtlMs(policy: Policy): number {
  const spanMs = 'spanMs' in policy.window ? policy.window.spanMs : 0;
  return Math.max(policy.block.forMs + 30 * 60_000, 2 * spanMs);
}

/** So soon, in use or on trial again, a failure goes on with the outage; a later one begins another. */
export function soonMs({ forMs }: BlockLength): number {
  return Math.max(Math.floor(forMs / 10), 10_000);
}

/**
 * Length of a block before growth. Learned is that of the first one of an incident: while the channel is known to be down, nobody is burnt
 * more often than by what is written. @param past how long the last outages were, ms each
 */
function baseMs({ forMs, ofPast }: BlockLength, trips: number, past: readonly number[]): number {
  if (ofPast === undefined || past.length < PAST_LEAST) return forMs;
  const sum = past.reduce((total, ms) => total + ms, 0);
  const learned = Math.max(ofPast.minMs, (ofPast.timesMean * sum) / past.length);
  return trips > 1 ? Math.max(learned, forMs) : learned;
}

/**
 * Length of a block that is the `trips`-th of its incident (1 = the first). Jitter is drawn from the epoch, so that reading a batch again
 * gives the same block.
 */
export function blockMs(
  block: BlockLength,
  { trips, past = [] }: { readonly trips: number; readonly past?: readonly number[] },
  epoch: number,
): number {
  const most = Math.max(block.maxMs, block.forMs);
  let length = Math.min(baseMs(block, trips, past), most);
  // Step by step, because powers of a fraction differ in their last digit from one language to the other.
  for (let trip = 1; block.growth > 1 && trip < trips && length < most; trip += 1)
    length = Math.min(length * block.growth, most);
  if (block.jitter === undefined) return Math.floor(length);
  const drawn = (((epoch % 1_000_003) * 7_919 + 104_729) % 10_007) / 10_007;
  const least = block.ofPast?.minMs ?? 0;
  return Math.floor(Math.max(Math.min(length * (1 + block.jitter * (2 * drawn - 1)), most), least));
}

/** Whether a block goes on until a person ends it. Mode `observe` keeps nothing hidden. */
export function awaitsRelease({ isReleasedByHand, mode }: Policy): boolean {
  return isReleasedByHand === true && mode === 'on';
}

/** How much longer than the block its key lives: through half-open, or until a reminder, programs that know only `EXISTS` stay out. */
export function keyGraceMs(policy: Policy): number {
  return Math.max(policy.halfOpen?.waitMs ?? 0, awaitsRelease(policy) ? policy.block.forMs : 0);
}
