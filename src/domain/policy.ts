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
    };

export type BlockLength = {
  readonly forMs: number;
  /** Factor per relapse, 1 or more. */
  readonly growth: number;
  /** No block is longer than this, whatever the growth. */
  readonly maxMs: number;
};

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
  const spanMs = policy.window.kind === 'time' ? policy.window.spanMs : 0;
  return Math.max(policy.block.forMs + 30 * 60_000, 2 * spanMs);
}

/** Length of a block that is the `trips`-th of its incident (1 = the first). */
export function blockMs(block: BlockLength, trips: number): number {
  return Math.floor(Math.min(block.forMs * block.growth ** (trips - 1), Math.max(block.maxMs, block.forMs)));
}
