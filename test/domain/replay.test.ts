import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ChannelBatch } from '../../src/domain/batch.js';
import { ChannelModel } from '../../src/domain/channel-model.js';
import { classify, type JudgedClass, resultOf } from '../../src/domain/classify.js';
import type { Policy } from '../../src/domain/policy.js';

/** Short times, so that a history of sixty steps crosses blocks, holds, staleness and expiry of the window and the fence. */
const POLICY: Policy = {
  mode: 'on',
  window: { kind: 'count', size: 5 },
  successRate: 6_000,
  block: { forMs: 40, growth: 1, maxMs: 40 },
  holdMs: 60,
  ignore: [],
};
const KINDS: Record<string, Policy> = {
  'a count window': POLICY,
  'a call log': { ...POLICY, window: { kind: 'log', spanMs: 24, minCalls: 3, maxEntries: 7 } },
  'a sequential test': {
    ...POLICY,
    window: { kind: 'sequential', healthy: 9_500, failing: 5_000, falseBlocks: 0.01, up: 4, down: 1, limit: 9 },
  },
  'a count window with all that can stand beside the rate': {
    ...POLICY,
    successRate: 4_000,
    slow: { overMs: 10, rate: 3_000 },
    minFailures: 2,
    maxConsecutiveFailures: 3,
    minSources: 2,
    rateLimit: { minMs: 5, maxMs: 30 },
  },
  'a call log with absolute numbers and slow calls as failures': {
    ...POLICY,
    window: { kind: 'log', spanMs: 40, minCalls: 4, maxEntries: 9 },
    slow: { overMs: 10 },
    maxFailures: 4,
    maxConsecutiveFailures: 2,
    rateLimit: { minMs: 5, maxMs: 30 },
  },
  'a count window with a trial after each block, on a ramp': {
    ...POLICY,
    halfOpen: { steps: [1_000, 5_000], permits: 1, close: 2, waitMs: 30, reopens: false },
  },
  'a call log with permits, and blocks again at the deadline of a trial': {
    ...POLICY,
    window: { kind: 'log', spanMs: 24, minCalls: 3, maxEntries: 7 },
    block: { forMs: 20, growth: 2, maxMs: 70, jitter: 0.3 },
    slow: { overMs: 10 },
    rateLimit: { minMs: 5, maxMs: 30 },
    halfOpen: { steps: [0], permits: 2, close: 3, waitMs: 15, reopens: true },
  },
  'a count window with levels': {
    ...POLICY,
    window: { kind: 'count', size: 8 },
    successRate: 2_000,
    levels: [
      { name: 'fallback', line: 5_000 },
      { name: 'cached', line: 8_000 },
    ],
  },
  'a time window with levels and a trial': {
    ...POLICY,
    window: { kind: 'time', spanMs: 24, slots: 4, minCalls: 3 },
    successRate: 3_000,
    levels: [{ name: 'cached', line: 7_000 }],
    halfOpen: { steps: [1_000], permits: 1, close: 1, waitMs: 30, reopens: false },
  },
  'a time window': { ...POLICY, window: { kind: 'time', spanMs: 24, slots: 4, minCalls: 3 } },
};
const FRESH_MS = 50;

type Outcome = { success: boolean; waits: boolean; source: string; duration: number; ago: number };
type Entry = { outcomes: Outcome[] };
type Logged = Entry & { position: number; arrival: number };

const outcomeOf = (failing: number) =>
  fc.record({
    success: fc.integer({ min: 0, max: 9 }).map((n) => n >= failing),
    /** Where a policy looks at such things: the third party asked to wait. */
    waits: fc.integer({ min: 0, max: 19 }).map((n) => n === 0),
    source: fc.constantFrom('a', 'a', 'b'),
    duration: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.integer({ min: 0, max: 30 })),
    ago: fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, fc.integer({ min: 0, max: 40 })),
  });
const history = fc.constantFrom(1, 3, 6, 9).chain((failing) => {
  const entry = fc.record({ outcomes: fc.array(outcomeOf(failing), { minLength: 1, maxLength: 3 }) });
  return fc.array(
    fc.record({
      wait: fc.oneof({ weight: 4, arbitrary: fc.integer({ min: 1, max: 6 }) }, fc.integer({ min: 1, max: 40 })),
      appended: fc.array(fc.record({ partition: fc.integer({ min: 0, max: 2 }), entry }), { maxLength: 3 }),
      partition: fc.integer({ min: 0, max: 2 }),
      /** Share of what is unread that is read now, in tenths; 0 replays only. */
      read: fc.integer({ min: 0, max: 10 }),
      /** Where a replay begins and ends, in tenths of what was read before. */
      replay: fc.tuple(fc.integer({ min: 0, max: 10 }), fc.integer({ min: 0, max: 10 })),
      sweep: fc.integer({ min: 0, max: 4 }).map((n) => n === 0),
    }),
    { minLength: 5, maxLength: 60 },
  );
});

function resultIn(policy: Policy, { success, waits, duration }: Outcome): string {
  const retryAfterMs = waits ? 10 : undefined;
  return resultOf(classify(policy, { success, durationMs: duration, retryAfterMs }) as JudgedClass);
}

function toBatch(policy: Policy, partition: number, entries: readonly Logged[]): ChannelBatch {
  const outcomes = entries.flatMap((entry) => entry.outcomes);
  const results = outcomes.map((outcome) => resultIn(policy, outcome));
  return {
    partition: `memory/log/${partition}/0`,
    results: results.join(''),
    entries: entries.map(({ position, arrival, outcomes: { length } }) => [String(position), arrival, length]),
    times: outcomes.flatMap(({ ago, duration }) => [ago, duration]),
    evidence: outcomes
      .filter((_outcome, i) => results[i] !== '1')
      .map(({ source }) => JSON.stringify({ at: 0, source, retryAfterMs: 10 })),
  };
}

describe.each(Object.entries(KINDS))('a batch under %s', (_kind, policy) => {
  it('gives exactly what its outcomes give one at a time, however often it is read again, whole, in part or cut at other boundaries', () => {
    fc.assert(
      fc.property(history, (steps) => {
        const reference = new ChannelModel('C', FRESH_MS);
        const subject = new ChannelModel('C', FRESH_MS);
        const logs: Logged[][] = [[], [], []];
        const done = [0, 0, 0];
        let now = 1_000;
        for (const step of steps) {
          now += step.wait;
          for (const { partition, entry } of step.appended) {
            const log = logs[partition]!;
            log.push({ ...entry, position: log.length, arrival: now });
          }
          now += 1;
          const p = step.partition;
          const log = logs[p]!;
          const read = done[p]!;
          const unread = Math.ceil(((log.length - read) * step.read) / 10);
          const [a, b] = step.replay.map((tenths) => Math.floor((read * tenths) / 10)).sort((x, y) => x - y) as [
            number,
            number,
          ];
          for (const one of log.slice(read, read + unread)) reference.record(policy, toBatch(policy, p, [one]), now);
          const batch = unread > 0 ? log.slice(b, read + unread) : log.slice(a, b);
          if (batch.length > 0) subject.record(policy, toBatch(policy, p, batch), now);
          done[p] = read + unread;
          if (step.sweep) for (const model of [reference, subject]) model.recover(policy, now);
          const seen = [reference, subject].map((model) => {
            model.recover(policy, now);
            return {
              view: model.view(now),
              told: model.takeTransitions().map(({ evidence: _, ...facts }) => facts),
            };
          });
          expect(seen[1]).toEqual(seen[0]);
        }
      }),
      { numRuns: Number(process.env.FUSELINE_REPLAY_RUNS ?? 250) },
    );
  }, 60_000);
});
