import { parseDuration } from './duration.js';
import { type BlockLength, DEFAULT_POLICY, type HalfOpen, type Mode, type Policy, type Window } from './policy.js';
import { LOG_MOST, type PolicyRule } from './policy-schema.js';
import { parseFalseBlocks, sequentialTest } from './window/sequential-test.js';

/** The level that is the block itself. */
export const BLOCKED_LEVEL = 'blocked';

/** A rule with all layers merged, in numbers. What is not written takes its default. */
export function policyOfRule(rule: PolicyRule, mode: Mode): Policy {
  const block = blockLength(rule.block);
  return {
    mode,
    window: readWindow(rule.window),
    successRate: hundredths(rule.levels?.[BLOCKED_LEVEL] ?? rule.successRate) ?? DEFAULT_POLICY.successRate,
    block,
    holdMs: ms(rule.hold, DEFAULT_POLICY.holdMs),
    ignore: [...(rule.ignore ?? DEFAULT_POLICY.ignore), ...(rule.codes?.ignored ?? [])],
    ...beyondTheRate(rule),
    ...wayBack(rule, block.forMs),
  };
}

/** What most policies do not have: absent, so that a plain policy stays plain. */
function beyondTheRate(rule: PolicyRule): Partial<Policy> {
  const { codes, slowCall, slowRate, minFailures, maxFailures, maxConsecutiveFailures, minSources, rateLimited } = rule;
  const { dynamic } = rule;
  const { success = [], failure = [] } = codes ?? {};
  return withoutUndefined({
    codes: success.length + failure.length > 0 ? { success, failure } : undefined,
    slow:
      slowCall === undefined
        ? undefined
        : { overMs: ms(slowCall, 0), ...(slowRate === undefined ? {} : { rate: Math.round(slowRate * 100) }) },
    minFailures,
    maxFailures,
    maxConsecutiveFailures,
    minSources: minSources === 1 ? undefined : minSources,
    isDynamic: dynamic ? true : undefined,
    rateLimit:
      rateLimited === undefined || rateLimited === 'count'
        ? undefined
        : { minMs: ms(rateLimited.min, 1_000), maxMs: ms(rateLimited.max, 300_000) },
  });
}

/** A window of time judges from five calls on, and has ten slots, unless it says otherwise. */
function readWindow(window: PolicyRule['window']): Window {
  if (window === undefined) return DEFAULT_POLICY.window;
  if (typeof window === 'number') return { kind: 'count', size: window };
  if (window.kind === 'count') return { kind: 'count', size: window.size };
  if (window.kind === 'sequential') {
    const falseBlocks = parseFalseBlocks(window.falseBlocks ?? '1 per million') ?? 1e-6;
    const [healthy, failing] = [Math.round(window.healthy * 100), Math.round(window.failing * 100)];
    const test = sequentialTest(healthy / 10_000, failing / 10_000, falseBlocks);
    return { kind: 'sequential', healthy, failing, falseBlocks, ...test };
  }
  const { span, minCalls = 5 } = window;
  if (window.kind === 'log')
    return { kind: 'log', spanMs: ms(span, 0), minCalls, maxEntries: window.maxEntries ?? LOG_MOST };
  return { kind: 'time', spanMs: ms(span, 0), slots: window.slots ?? 10, minCalls };
}

function blockLength(block: PolicyRule['block']): BlockLength {
  if (block === undefined) return DEFAULT_POLICY.block;
  const {
    for: length,
    growth = 1,
    max,
    jitter = 0,
    timesMean,
    min,
  }: Exclude<typeof block, string> = typeof block === 'string' ? { for: block } : block;
  const forMs = ms(length, DEFAULT_POLICY.block.forMs);
  const maxMs = ms(max, Math.max(DEFAULT_POLICY.block.maxMs, forMs));
  // Shorter than what is written only for those who say how short.
  const ofPast = timesMean === undefined ? {} : { ofPast: { timesMean, minMs: ms(min, forMs) } };
  return { forMs, growth, maxMs, ...(jitter === 0 ? {} : { jitter: jitter / 100 }), ...ofPast };
}

/** What comes between a block and full use, and before a block. */
function wayBack({ halfOpen, release, levels }: PolicyRule, blockForMs: number): Partial<Policy> {
  const lines = Object.entries(levels ?? {}).filter(([name]) => name !== BLOCKED_LEVEL);
  return withoutUndefined({
    halfOpen: halfOpen && readHalfOpen(halfOpen, blockForMs),
    isReleasedByHand: release === 'manual' ? true : undefined,
    levels:
      lines.length === 0
        ? undefined
        : lines.map(([name, line]) => ({ name, line: Math.round(line * 100) })).sort((a, b) => a.line - b.line),
  });
}

/** Ten percent of users, three good outcomes, one block length, then closed: unless it says otherwise. A last step of 100 % is closed. */
function readHalfOpen(rule: NonNullable<PolicyRule['halfOpen']>, blockForMs: number): HalfOpen {
  const { percent = 10, permits, close = 3, wait, atDeadline = 'close', ramp = [] } = rule;
  const steps = [permits === undefined ? percent : 0, ...ramp].filter((step, i) => i === 0 || step < 100);
  const shares = steps.map((step) => Math.round(step * 100));
  return { steps: shares, permits: permits ?? 1, close, waitMs: ms(wait, blockForMs), reopens: atDeadline === 'open' };
}

const hundredths = (percent: number | undefined) => (percent === undefined ? undefined : Math.round(percent * 100));
const ms = (duration: string | number | undefined, otherwise: number) => parseDuration(duration) ?? otherwise;

function withoutUndefined<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as never;
}
