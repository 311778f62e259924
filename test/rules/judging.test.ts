import { describe, expect, it } from 'vitest';
import type { Policy } from '../../src/domain/policy.js';
import { parseRules } from '../../src/rules/parse.js';

function accepted(rule: object): Policy {
  const parsed = parseRules({ mode: 'on', defaults: rule });
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems));
  return parsed.rules.policyFor('any');
}

function refused(document: object): string[] {
  const parsed = parseRules(document);
  if (parsed.ok) throw new Error('was accepted');
  return parsed.problems.map(({ path, message }) => `${path}: ${message}`);
}

const FALSE_BLOCKS =
  "falseBlocks must be a number per thousand, million or billion calls, from 1 per billion to 10 per thousand, such as '1 per million'";
const APART = 'healthy must be at most 99.99, failing at least 1, and healthy at least 5 above failing';

describe('what a policy can say beside the rate', () => {
  it('is resolved to integers, and what is not written takes its default', () => {
    expect(accepted({ window: { kind: 'log', span: '30s' } }).window).toEqual({
      ...{ kind: 'log', spanMs: 30_000, minCalls: 5, maxEntries: 10_000 },
    });
    expect(accepted({ window: { kind: 'sequential', healthy: 95, failing: 50.5 } }).window).toMatchObject({
      ...{ kind: 'sequential', healthy: 9_500, failing: 5_050, falseBlocks: 1e-6 },
    });
    expect(accepted({ slowCall: '3s' }).slow).toEqual({ overMs: 3_000 });
    expect(accepted({ slowCall: '3s', slowRate: 33.33 }).slow).toEqual({ overMs: 3_000, rate: 3_333 });
    expect(accepted({ rateLimited: {} }).rateLimit).toEqual({ minMs: 1_000, maxMs: 300_000 });
    expect(accepted({ rateLimited: 'count' }).rateLimit).toBeUndefined();
    expect(accepted({ minSources: 1 }).minSources).toBeUndefined();
    expect(accepted({ block: { for: '1m', max: '1h', timesMean: 2.5 } }).block).toEqual({
      ...{ forMs: 60_000, growth: 1, maxMs: 3_600_000, ofPast: { timesMean: 2.5, minMs: 60_000 } },
    });
    expect(accepted({ ignore: ['A'], codes: { ignored: ['B'], failure: ['C'] } })).toMatchObject({
      ...{ ignore: ['A', 'B'], codes: { success: [], failure: ['C'] } },
    });
    expect(accepted({ maxConsecutiveFailures: 0, minFailures: 3, window: { kind: 'time', span: '1h' }, maxFailures: 0 }))
      // biome-ignore format: one line
      .toMatchObject({ maxConsecutiveFailures: 0, minFailures: 3, maxFailures: 0 });
  });

  it.each<[rule: object, problem: string]>([
    [
      { window: { kind: 'ewma' } },
      'defaults.window.kind: window.kind must be count, time, log or sequential, got "ewma"',
    ],
    [
      { block: { for: '1m', timesMean: 0.5 } },
      'defaults.block.timesMean: block.timesMean must be a number from 1 to 10, got 0.5',
    ],
    [
      { block: { for: '1m', min: '10s' } },
      'defaults.block.min: block.min is the shortest block that timesMean may give, and says nothing without it, got "10s"',
    ],
    [
      { block: { for: '1m', timesMean: 2.5, min: '2m' } },
      'defaults.block.min: block.min must not be longer than block.for, got "2m"',
    ],
    [{ window: { kind: 'log', span: '500ms' } }, 'defaults.window.span: span must be from 1s to 1h, got "500ms"'],
    [{ window: { kind: 'time', span: '2h' } }, 'defaults.window.span: span must be from 1s to 1h, got "2h"'],
    [
      { window: { kind: 'log', span: '1m', maxEntries: 10_001 } },
      'defaults.window.maxEntries: maxEntries must be a whole number from 1 to 10000, got 10001',
    ],
    [
      { window: { kind: 'log', span: '1m', maxEntries: 4 } },
      'defaults: minCalls 5 can never be reached with maxEntries 4',
    ],
    [{ window: { kind: 'sequential', healthy: 50, failing: 46 } }, `defaults.window: ${APART}, got {…}`],
    [
      { window: { kind: 'sequential', healthy: 95, failing: 50, falseBlocks: 'never' } },
      `defaults.window.falseBlocks: ${FALSE_BLOCKS}, got "never"`,
    ],
    [
      { window: { kind: 'sequential', healthy: 95, failing: 50, falseBlocks: '11 per thousand' } },
      `defaults.window.falseBlocks: ${FALSE_BLOCKS}, got "11 per thousand"`,
    ],
    [{ slowRate: 50 }, 'defaults: slowRate needs slowCall, which says how long a slow call takes'],
    [{ slowAs: 'failure' }, 'defaults: slowAs needs slowCall, which says how long a slow call takes'],
    [
      { slowCall: '3s', slowAs: 'slow' },
      'defaults.slowAs: slowAs must be failure; for a threshold of its own give slowRate, got "slow"',
    ],
    [
      { slowCall: '3s', slowAs: 'failure', slowRate: 50 },
      'defaults: slowAs and slowRate exclude each other: a slow call is a failure, or has a threshold of its own',
    ],
    [
      { release: 'manual', halfOpen: { percent: 10 } },
      'defaults: release: manual and halfOpen exclude each other: a block that waits for a person never gets to the trial',
    ],
    [
      { release: 'manual', block: '59s' },
      'defaults: release: manual reminds people each block, which must last 1m or more, got "59s"',
    ],
    [
      { release: 'manual', block: { for: '1m', jitter: 10 } },
      'defaults: release: manual reminds people each block, which must last 1m or more, jitter of 10 % taken off, got "1m"',
    ],
    [
      { release: 'manual', block: { for: '1m', timesMean: 2 } },
      'defaults: release: manual and block.timesMean exclude each other: people say how long such a block lasts',
    ],
    [
      { hold: 0, block: { for: '1m', timesMean: 2 } },
      'defaults: block.timesMean needs a hold: without one each block is an incident of its own, and there is nothing to learn',
    ],
    [
      { slowCall: '3s', slowRate: 50, window: { kind: 'sequential', healthy: 95, failing: 50 } },
      'defaults: slowRate 50 does not go with a sequential test, which has no window to take a share of; slowAs does',
    ],
    [{ slowCall: '2h' }, 'defaults.slowCall: slowCall must be at most 1h, got "2h"'],
    [
      { maxFailures: 5 },
      'defaults: maxFailures 5 does not go with a window of kind count, got window 10: kinds time and log have it',
    ],
    [{ window: 5, minFailures: 6 }, 'defaults: minFailures 6 can never be reached in a window of 5'],
    [{ minSources: 21 }, 'defaults.minSources: minSources must be a whole number from 1 to 20, got 21'],
    [
      { maxConsecutiveFailures: -1 },
      'defaults.maxConsecutiveFailures: maxConsecutiveFailures must be a whole number from 0 to 100000, got -1',
    ],
    [
      { rateLimited: 'hide' },
      'defaults.rateLimited: rateLimited must be count, or a mapping with min and max, got "hide"',
    ],
    [{ rateLimited: { max: '6m' } }, 'defaults.rateLimited.max: rateLimited.max must be from 1s to 5m, got "6m"'],
    [
      { rateLimited: { min: '2m', max: '1m' } },
      'defaults.rateLimited: rateLimited.min must not be longer than rateLimited.max, got {…}',
    ],
    [{ codes: { success: ['A'], failure: ['A'] } }, 'defaults: the code "A" cannot be success and failure'],
    [{ ignore: ['A'], codes: { success: ['A'] } }, 'defaults: the code "A" cannot be success and ignored'],
    [{ codes: { failed: ['A'] } }, 'defaults.codes.failed: "failed" is not a known key'],
  ])('is refused with the rule and the value: %j', (rule, problem) => {
    expect(refused({ mode: 'on', defaults: rule })).toEqual([problem.replace('{…}', shown(rule, problem))]);
  });

  it('is checked as it comes together for a channel, whichever layers it is written in', () => {
    const document = {
      mode: 'on',
      defaults: { slowCall: '3s' },
      policies: { p: { slowRate: 50 } },
      channels: { A: { policy: 'p', slowAs: 'failure' }, B: { policy: 'p' }, C: { slowAs: 'failure' } },
    };
    expect(refused(document)).toEqual([
      'channels.A: slowAs and slowRate exclude each other: a slow call is a failure, or has a threshold of its own',
    ]);
  });

  it('is resolved at once, also where the sequential test has little to decide by', () => {
    for (const [healthy, failing] of [
      [50, 45],
      [99.99, 94.99],
      [6, 1],
      [52.5, 47.5],
    ]) {
      const before = performance.now();
      accepted({ window: { kind: 'sequential', healthy, failing, falseBlocks: '1 per billion' } });
      expect(performance.now() - before).toBeLessThan(3_000);
    }
  });
});

/** How a message shows the value that it is about, a mapping. */
function shown(rule: object, problem: string): string {
  const key = problem.slice('defaults.'.length).split(':')[0]! as keyof typeof rule;
  return JSON.stringify(rule[key]);
}
