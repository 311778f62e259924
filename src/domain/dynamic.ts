import type { Policy, Window } from './policy.js';
import { SLOTS_MOST, WINDOW_MOST } from './policy-schema.js';

/**
 * By how much judging is more patient than the rules say, the same in the whole fleet: 1 is as written. At most four decimals, so that
 * whatever is made of them is made of whole numbers.
 */
export type Factors = {
  /** The window is so many times as large. */
  readonly window: number;
  /** The tolerated share of failures is so many times as high. */
  readonly rate: number;
};

/** As the rules say. */
export const AS_WRITTEN: Factors = { window: 1, rate: 1 };

/** Above `high` judging becomes more patient by one step, below `low` it goes back by a smaller one; between them it stays. */
export const LOAD_LINES = { high: 0.7, low: 0.3 } as const;
/** Two steps lie at least so far apart, whoever takes them. */
export const STEP_EVERY_MS = 60_000;

const UP: Factors = { window: 1.5, rate: 1.2 };
const DOWN: Factors = { window: 1.2, rate: 1.1 };
/** Four steps up: beyond that a channel that is dead would be offered for too long, whatever the load. */
export const MOST_FACTORS: Factors = { window: 1.5 ** 4, rate: 1.2 ** 4 };

const DECIMALS = 10_000;
const SPAN_MOST_MS = 3_600_000;
const CALLS_MOST = 1_000_000;
const FAILURES_MOST = 100_000;
/** No rate falls below this because of the load, hundredths of a percent: at 0 nothing would ever block. */
const RATE_LEAST = 100;

/** Whether the last step lies far enough back. Far ahead means that another server's clock goes by another time: no reason to wait for it. */
export function isStepDue(lastMs: number, nowMs: number): boolean {
  return Math.abs(nowMs - lastMs) >= STEP_EVERY_MS;
}

/** The next factors at a load (a share, 0 to 1): one step up, one step down, or the same. Never below 1, never above {@link MOST_FACTORS}. */
export function nextFactors(factors: Factors, load: number): Factors {
  const { window, rate } = readFactors(factors);
  if (load > LOAD_LINES.high) return readFactors({ window: window * UP.window, rate: rate * UP.rate });
  if (load < LOAD_LINES.low) return readFactors({ window: window / DOWN.window, rate: rate / DOWN.rate });
  return { window, rate };
}

/** Factors that may come from anywhere, within their bounds; what is no number is 1. */
export function readFactors({ window, rate }: Factors): Factors {
  const within = (factor: number, most: number) =>
    Number.isFinite(factor) ? Math.min(Math.max(Math.round(factor * DECIMALS) / DECIMALS, 1), most) : 1;
  return { window: within(window, MOST_FACTORS.window), rate: within(rate, MOST_FACTORS.rate) };
}

export function isAsWritten({ window, rate }: Factors): boolean {
  return window === 1 && rate === 1;
}

/**
 * What a channel is judged by under the load: the policy itself unless it is dynamic. Nothing in it is stricter than written, and nothing
 * leaves the limits of the rules. Counts in a row and the share of slow calls stay as they are.
 */
export function scaledPolicy(policy: Policy, factors: Factors): Policy {
  // A sequential test was made for its two rates: scaled it would be another test, to which the stored score says nothing.
  if (!policy.isDynamic || policy.window.kind === 'sequential' || isAsWritten(factors)) return policy;
  const { window, maxFailures, levels } = policy;
  const scaled = scaledWindow(window, factors.window);
  const line = (written: number) => scaledLine(written, factors.rate);
  return {
    ...policy,
    window: scaled,
    successRate: line(policy.successRate),
    ...(levels && { levels: levels.map((level) => ({ ...level, line: line(level.line) })) }),
    // In a longer span the same traffic has more failures: left alone, this limit would become stricter.
    ...(maxFailures !== undefined && {
      maxFailures: Math.min(grown(maxFailures, growthOf(window, scaled)), FAILURES_MOST),
    }),
  };
}

/** A whole number and what it is divided by: a factor without rounding. */
type Growth = readonly [by: number, of: number];

/** Rounded down: a whole call more only when the factor has earned it. */
function grown(written: number, [by, of]: Growth): number {
  return Math.floor((written * by) / of);
}

const growth = (factor: number): Growth => [Math.round(factor * DECIMALS), DECIMALS];
const between = (least: number, wanted: number, most: number) => Math.max(least, Math.min(wanted, most));

/**
 * A window of calls keeps more of them. A window of time keeps more slots of the same length, because under another length the stored ones
 * would mean nothing; a log looks further back. What these need before they judge grows as their span did, and no more: a channel whose
 * traffic is enough to be judged stays so.
 */
function scaledWindow(window: Window, factor: number): Window {
  switch (window.kind) {
    case 'count':
      return { kind: 'count', size: between(window.size, grown(window.size, growth(factor)), WINDOW_MOST) };
    case 'time': {
      const slotMs = Math.ceil(window.spanMs / window.slots);
      const most = Math.min(SLOTS_MOST, Math.floor(SPAN_MOST_MS / slotMs));
      const slots = between(window.slots, grown(window.slots, growth(factor)), most);
      if (slots === window.slots) return window;
      const minCalls = Math.min(grown(window.minCalls, [slots, window.slots]), CALLS_MOST);
      return { kind: 'time', spanMs: slotMs * slots, slots, minCalls };
    }
    case 'log': {
      const { maxEntries } = window;
      const spanMs = between(window.spanMs, grown(window.spanMs, growth(factor)), SPAN_MOST_MS);
      const minCalls = between(window.minCalls, grown(window.minCalls, [spanMs, window.spanMs]), maxEntries);
      return { kind: 'log', spanMs, minCalls, maxEntries };
    }
    case 'sequential':
      return window;
  }
}

function growthOf(written: Window, scaled: Window): Growth {
  if (written.kind === 'time' && scaled.kind === 'time') return [scaled.slots, written.slots];
  if (written.kind === 'log' && scaled.kind === 'log') return [scaled.spanMs, written.spanMs];
  return [1, 1];
}

/** A line below which so many successes are too few: its other side, the tolerated failures, grows. @param written hundredths of a percent */
function scaledLine(written: number, factor: number): number {
  const tolerated = grown(10_000 - written, growth(factor));
  return Math.min(written, Math.max(RATE_LEAST, 10_000 - tolerated));
}
