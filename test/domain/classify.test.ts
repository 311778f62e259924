import { describe, expect, it } from 'vitest';
import { ChannelModel } from '../../src/domain/channel-model.js';
import { classify, type OutcomeClass, resultOf } from '../../src/domain/classify.js';
import type { Policy } from '../../src/domain/policy.js';
import { parseRulesValue } from '../../src/domain/rules.js';

function policyOf(rule: object): Policy {
  const parsed = parseRulesValue({ mode: 'on', defaults: rule });
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems));
  return parsed.rules.policyFor('any');
}

const classed = (rule: object, outcome: Parameters<typeof classify>[1]): OutcomeClass =>
  classify(policyOf(rule), outcome);
const failed = (code?: string) => ({ success: false, code });
const succeeded = (code?: string) => ({ success: true, code });

describe('an outcome', () => {
  it.each(['rate_limited', 'TIMEOUT', 'new_kind_of_error', '', 'constructor', '__proto__', '*', undefined])(
    '2.04 with a code that the policy does not list, %j, is what its caller said',
    (code) => {
      for (const rule of [{}, { ignore: ['X', 'CARD_*'], codes: { success: ['Y'], failure: ['Z*'] } }]) {
        expect(classed(rule, failed(code))).toBe('failure');
        expect(classed(rule, succeeded(code))).toBe('success');
      }
    },
  );

  it('2.04 with a listed code is what the list says, whatever its caller said', () => {
    const rule = {
      ignore: ['QUOTA_*'],
      codes: { success: ['ORDERPAID'], failure: ['SYS_*'], ignored: ['USERPAYING'] },
    };
    for (const of of [failed, succeeded]) {
      expect(classed(rule, of('QUOTA_DAY'))).toBe('ignored');
      expect(classed(rule, of('USERPAYING'))).toBe('ignored');
      expect(classed(rule, of('ORDERPAID'))).toBe('success');
      expect(classed(rule, of('SYS_BUSY'))).toBe('failure');
    }
    expect(classed(rule, failed('quota_day'))).toBe('failure');
  });

  it('with a code that several lists know: the exact one beats patterns, then ignored beats success, and that failure', () => {
    const rule = { ignore: ['A*'], codes: { success: ['AB*', 'C*'], failure: ['ABC', 'CD*'] } };
    expect(classed(rule, succeeded('ABC'))).toBe('failure');
    expect(classed(rule, failed('ABD'))).toBe('ignored');
    expect(classed(rule, failed('CDE'))).toBe('success');
  });

  it.each(['CLIENT_CANCELLED', 'client_cancelled', 'Client_Cancelled'])(
    '2.05 that its caller broke off, %s, never counts, not even where a policy lists the code otherwise',
    (code) => {
      expect(classed({}, failed(code))).toBe('ignored');
      expect(classed({ codes: { failure: ['CLIENT_*'] }, rateLimited: {} }, { ...failed(code), retryAfterMs: 9 })).toBe(
        'ignored',
      );
    },
  );

  it('2.02 is slow when it took longer than slowCall, not as long, and only where the policy says so', () => {
    const took = (durationMs: number, success = true) => ({ success, durationMs });
    expect(classed({}, took(3_600_000))).toBe('success');
    expect(classed({ slowCall: '7s' }, took(7_000))).toBe('success');
    expect(classed({ slowCall: '7s' }, took(7_000.5))).toBe('slow');
    expect(classed({ slowCall: '7s', slowRate: 50 }, took(9_000))).toBe('slow');
    expect(classed({ slowCall: '7s' }, took(9_000, false))).toBe('failure');
    expect(classed({ slowCall: '7s' }, { success: true })).toBe('success');
  });

  it('that names a time to wait is followed where the policy says so, unless its code says that it does not count', () => {
    const wait = { success: false, code: '429', retryAfterMs: 20_000 };
    expect(classed({}, wait)).toBe('failure');
    expect(classed({ rateLimited: 'count' }, wait)).toBe('failure');
    expect(classed({ rateLimited: { max: '1m' } }, wait)).toBe('rate-limited');
    expect(classed({ rateLimited: {} }, { ...wait, retryAfterMs: 0 })).toBe('failure');
    expect(classed({ rateLimited: {}, ignore: ['429'] }, wait)).toBe('ignored');
    expect(classed({ rateLimited: {}, codes: { failure: ['429'] } }, wait)).toBe('rate-limited');
  });
});

describe('slow calls', () => {
  const calls = (outcomes: readonly { success: boolean; durationMs: number }[]) => {
    const policy = policyOf({ window: { kind: 'time', span: '1m', minCalls: 5 }, slowCall: '3s', slowRate: 90 });
    const model = new ChannelModel('C');
    const results = outcomes.map((one) => resultOf(classify(policy, one) as Exclude<OutcomeClass, 'ignored'>)).join('');
    const evidence = [...results].filter((result) => result !== '1').map(() => '{"at":0}');
    const batch = { partition: 'p', results, entries: [['1', 1_000, results.length]] as const, times: [], evidence };
    model.record(policy, batch, 1_000);
    return model.takeTransitions().map(({ kind, reason, size, slow }) => ({ kind, reason, size, slow }));
  };
  const [slow, fast] = [
    { success: true, durationMs: 4_000 },
    { success: true, durationMs: 10 },
  ];

  it('1.26 count in the total as others do: of five calls five are 100 %, four are 80 %', () => {
    const blocked = [{ kind: 'blocked', reason: 'slow-calls', size: 5, slow: 5 }];
    expect(calls([slow, slow, slow, slow, slow])).toEqual(blocked);
    expect(calls([slow, slow, slow, fast, slow])).toEqual([]);
  });
});
