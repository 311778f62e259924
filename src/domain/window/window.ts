/** Counts per slot of a time window: slot number → calls by how they ended. */
export type SlotCounts = ReadonlyMap<number, readonly [successes: number, failures: number, slow: number]>;

/** One call in a window: `1` it succeeded, `0` it failed, `3` it succeeded and was slow. */
export type Calls = '0' | '1' | '3';

/** What every kind of window can do; the twin of what `lua/lib/window.lua` lists. */
export type WindowModel = {
  /** A success without a window leaves nothing behind, not even in the fence; so it may be read again from another partition. */
  readonly forgetful: boolean;
  /** Why it blocks. */
  readonly reason: 'success-rate' | 'sequential-test';
  readonly failures: number;
  readonly slow: number;
  readonly recorded: number;
  /** What a share is of. */
  readonly total: number;
  /** It holds a failure or a slow call. */
  readonly isOpen: boolean;
  /** There is something in it to remember. */
  readonly isKept: boolean;
  /** An outcome that ended then came too late for it. */
  isPast(endMs: number): boolean;
  /** Lets fall out what lies a span before that end, where there is a span. */
  moveTo(endMs: number): void;
  push(result: Calls, endMs: number): void;
  clear(): void;
  /** There are enough calls to judge by. */
  isJudged(): boolean;
  /** @param bad the calls in it that count as failures @param threshold hundredths of a percent */
  isFailing(bad: number, threshold: number): boolean;
};

/** A window at rest, by kind. */
export type StoredWindow =
  | { readonly kind: 'count'; readonly slots: readonly Calls[] }
  | { readonly kind: 'time'; readonly lengthMs: number; readonly counts: SlotCounts; readonly newest: number }
  | {
      readonly kind: 'log';
      readonly calls: readonly (readonly [endMs: number, result: Calls])[];
      readonly newest: number;
    }
  | {
      readonly kind: 'sequential';
      readonly test: string;
      readonly score: number;
      readonly calls: number;
      readonly failures: number;
      readonly slow: number;
    };
