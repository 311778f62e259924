import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseOutcome } from '../../src/domain/outcome.js';
import { readOutcome } from '../../src/publisher/read-outcome.js';
import { outcomeText } from '../../src/transport/outcome-text.js';
import { parsePlain } from '../../src/transport/plain.js';

const ORDER = ['channel', 'success', 'durationMs', 'retryAfterMs', 'code', 'at', 'source', 'agoMs'] as const;

const name = fc.oneof(
  fc.constantFrom('ALIPAY', '微信支付', 'caf\u00e9', 'sms-aliyun', '', 'a'.repeat(200), '\ufffd', '{', '\u007f'),
  fc.string({ maxLength: 20, unit: 'binary' }),
);
const milliseconds = fc.oneof(
  fc.nat(4_000_000),
  fc.double({ min: 0, max: 4_000_000, noNaN: true }),
  fc.constantFrom(0, -0, 1e21, 1e-7, 0.1, 123456.000001, 2 ** 53 + 2, 999999999999999, -1),
);
const valid = fc.record(
  {
    ...{ channel: fc.constantFrom('ALIPAY', '微信支付', 'sms-aliyun'), success: fc.boolean() },
    ...{ durationMs: fc.nat(3_600_000), retryAfterMs: fc.nat(60_000), agoMs: fc.nat(1_000) },
    code: fc.constantFrom('SYSTEM_ERROR', 'OK', '超时'),
    source: fc.constantFrom('checkout@web-1', '', 'kasse@münchen'),
    at: fc.oneof(fc.constant('2026-01-01T00:00:00Z'), fc.nat(2_000_000_000)),
  },
  { requiredKeys: ['channel', 'success'] },
);
const any = fc.record(
  {
    ...{ channel: name, success: fc.oneof(fc.boolean(), fc.constantFrom(0, 1, '1', 'true', null)) },
    ...{ durationMs: milliseconds, retryAfterMs: milliseconds, agoMs: milliseconds },
    ...{ code: fc.oneof(name, fc.nat(99)), source: name, at: fc.oneof(name, milliseconds, fc.constant(null)) },
  },
  { requiredKeys: [] },
);

/** JSON as publishers write it: fields in their order. */
function write(outcome: Record<string, unknown>, blank: string): string {
  const fields = ORDER.filter((field) => outcome[field] !== undefined);
  return `{${fields.map((field) => `"${field}":${blank}${JSON.stringify(outcome[field])}`).join(`,${blank}`)}}`;
}

const texts = (outcome: fc.Arbitrary<Record<string, unknown>>) =>
  fc
    .tuple(fc.array(outcome, { maxLength: 5 }), fc.constantFrom('', ' '), fc.boolean())
    .map(([all, blank, alone]) =>
      alone && all[0] ? write(all[0], blank) : `[${all.map((each) => write(each, blank)).join(`,${blank}`)}]`,
    );

/** What one slip, or one bad intention, makes of a text. */
const HOSTILE = [
  ...['"', '\\', '\\u0041', '\\ud800', '\ud800', '\n', '\t', ' ', '  ', '\u0000', '\u2028', '\ufeff'],
  ...[
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '0',
    '00',
    '-',
    '.',
    '1e3',
    'E',
    '9'.repeat(25),
    '0.',
    '.5',
    'null',
    'NaN',
    'truefalse',
  ],
  ...[
    '"__proto__":{"x":1},',
    '"channel":"B",',
    ',"success":false',
    '"durationMs":1,"durationMs":2',
    ',"agoMs":3,"agoMs":4',
  ],
  ...[
    ',"code":"A","code":"B"',
    ',"v":1',
    '"constructor":1,',
    '{"channel":"B","success":true},',
    ',"at":{"a":1}',
    '/*x*/',
  ],
];
const damaged = fc
  .tuple(
    texts(fc.oneof(valid, any)),
    fc.array(fc.tuple(fc.nat(), fc.nat(4), fc.constantFrom('', ...HOSTILE)), { maxLength: 2 }),
  )
  .map(([text, edits]) =>
    edits.reduce((now, [where, length, put]) => {
      const at = where % (now.length + 1);
      return now.slice(0, at) + put + now.slice(at + length);
    }, text),
  );

/** As `parseOutcome` sees it. */
const judged = (parsed: unknown) => (Array.isArray(parsed) ? parsed : [parsed]).map(parseOutcome);

describe('the short way to what JSON.parse makes of outcomes', () => {
  it('gives the same or nothing, whatever the text', () => {
    let plain = 0;
    fc.assert(
      fc.property(damaged, (text) => {
        const found = parsePlain(text);
        if (found === undefined) return;
        plain += 1;
        const parsed: unknown = JSON.parse(text);
        expect(found).toEqual(parsed);
        expect(judged(found)).toEqual(judged(parsed));
      }),
      { numRuns: 5_000 },
    );
    expect(plain).toBeGreaterThan(500);
  });

  it('takes what publishers write, alone and in arrays, with or without blanks', () => {
    fc.assert(
      fc.property(fc.array(valid, { minLength: 1, maxLength: 5 }), fc.constantFrom('', ' '), (all, blank) => {
        const written = all.map((each) => write(each, blank));
        expect(parsePlain(`[${written.join(`,${blank}`)}]`)).toEqual(all);
        expect(parsePlain(written[0]!)).toEqual(all[0]);
      }),
    );
  });

  it('takes what our own publishers make of any outcome without escapes', () => {
    fc.assert(
      fc.property(valid, ({ agoMs, ...given }) => {
        const outcome = readOutcome(given, 'checkout@web-2');
        if (typeof outcome === 'string') throw new Error(outcome);
        const text = outcomeText(outcome, agoMs ?? 0);
        expect(parsePlain(text)).toEqual(JSON.parse(text));
      }),
    );
  });

  it('reads every number as JSON.parse does', () => {
    const digits = fc.stringMatching(/^(0|[1-9]\d{0,14})(\.\d{1,20})?$/);
    fc.assert(
      fc.property(digits, (number) => {
        const text = `{"channel":"A","success":true,"durationMs":${number}}`;
        expect(parsePlain(text)).toEqual(JSON.parse(text));
      }),
      { numRuns: 2_000 },
    );
  });

  it('leaves to JSON.parse what is empty, long, or of another kind', () => {
    const long = `[${Array(6_000).fill('{"channel":"A","success":true,"source":"checkout@web-1"}').join(',')}]`;
    for (const text of [
      '',
      '[]',
      '{}',
      '[{}]',
      '""',
      'null',
      '{"success":true}',
      '[{"channel":"A","success":true}',
      long,
    ])
      expect(parsePlain(text)).toBeUndefined();
  });

  it('answers at once about the longest text that almost is of the plain form', () => {
    const one = '{"channel":"A","success":true,"durationMs":12.5,"code":"OK","source":"checkout@web-1"}';
    for (const end of ['', ']x', ',', `,{"channel":"${'x'.repeat(100_000)}`]) {
      const text = `[${Array(1_000).fill(one).join(',')}${end}`;
      const startedAt = performance.now();
      expect(parsePlain(text)).toBeUndefined();
      expect(performance.now() - startedAt).toBeLessThan(1_000);
    }
  });
});
