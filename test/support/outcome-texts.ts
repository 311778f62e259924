import fc from 'fast-check';

/** Outcomes as they travel, plain and not quite plain: for tests which hold a shorter way of reading them against the long one. */

const ORDER = ['channel', 'success', 'durationMs', 'retryAfterMs', 'code', 'at', 'source', 'agoMs'] as const;

const name = fc.oneof(
  fc.constantFrom(
    'ALIPAY',
    '微信支付',
    'caf\u00e9',
    'cafe\u0301',
    '',
    'a'.repeat(128),
    'é'.repeat(65),
    '\ufffd',
    '{',
    '\u007f',
    ' A',
  ),
  fc.string({ maxLength: 20, unit: 'binary' }),
);
const milliseconds = fc.oneof(
  fc.nat(4_000_000),
  fc.double({ min: 0, max: 4_000_000, noNaN: true }),
  fc.constantFrom(0, -0, 1e21, 1e-7, 0.1, 123456.000001, 2 ** 53 + 2, 999999999999999, -1, 3_600_000, 3_600_000.001),
  fc.constantFrom('12', '1.5', '-1', null),
);
/** What publishers send. */
export const valid = fc.record(
  {
    ...{ channel: fc.constantFrom('ALIPAY', '微信支付', 'sms-aliyun'), success: fc.boolean() },
    ...{ durationMs: fc.nat(3_600_000), retryAfterMs: fc.nat(60_000), agoMs: fc.nat(1_000) },
    code: fc.constantFrom('SYSTEM_ERROR', 'OK', '超时', ''),
    source: fc.constantFrom('checkout@web-1', '', 'kasse@münchen'),
    at: fc.oneof(fc.constant('2026-01-01T00:00:00Z'), fc.nat(2_000_000_000)),
  },
  { requiredKeys: ['channel', 'success'] },
);
const any = fc.record(
  {
    ...{
      channel: fc.oneof(name, fc.nat(9)),
      success: fc.oneof(fc.boolean(), fc.constantFrom(0, 1, '1', 'true', null)),
    },
    ...{ durationMs: milliseconds, retryAfterMs: milliseconds, agoMs: milliseconds },
    ...{ code: fc.oneof(name, fc.nat(99)), source: name, at: fc.oneof(name, milliseconds) },
  },
  { requiredKeys: [] },
);

/** JSON as publishers write it: fields in their order, or turned round. */
export function write(outcome: Record<string, unknown>, blank = '', isTurned = false): string {
  const fields = ORDER.filter((field) => outcome[field] !== undefined);
  if (isTurned) fields.reverse();
  return `{${fields.map((field) => `"${field}":${blank}${JSON.stringify(outcome[field])}`).join(`,${blank}`)}}`;
}

const texts = fc
  .tuple(fc.array(fc.oneof(valid, any), { maxLength: 5 }), fc.constantFrom('', ' '), fc.boolean(), fc.boolean())
  .map(([all, blank, isTurned, isAlone]) => {
    const written = all.map((each) => write(each, blank, isTurned));
    return isAlone && written[0] !== undefined ? written[0] : `[${written.join(`,${blank}`)}]`;
  });

/** What one slip, or one bad intention, makes of a text. */
const HOSTILE = [
  ...[
    '"',
    '\\',
    '\\u0041',
    '\\ud800',
    '\n',
    '\t',
    ' ',
    '  ',
    '\u0000',
    '\u2028',
    '\ufeff',
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
  ],
  ...['0', '00', '-', '.', '1e3', 'E', '9'.repeat(25), '0.', '.5', 'null', 'NaN', 'truefalse', 'x', 'x'.repeat(129)],
  ...['"__proto__":{"x":1},', '"channel":"B",', ',"success":false', '"durationMs":1,"durationMs":2', ',"channels":"A"'],
  ...[
    ',"agoMs":3,"agoMs":4',
    ',"code":"A","code":"B"',
    ',"v":1',
    '"constructor":1,',
    '{"channel":"B","success":true},',
  ],
  ...[',"at":{"a":1}', '/*x*/', '"source":"s",', ',"sourceIp":"::1"', ',"codex":"1"', ',"durationSec":1', ',"atom":1'],
].map((text) => Buffer.from(text));
/** No UTF-8, or half a character. */
const BYTES = [[0xff], [0x80], [0xc3], [0xe5, 0xbe], [0xed, 0xa0, 0x80]].map((bytes) => Buffer.from(bytes));

/** Most of them damaged at up to two places. */
export const damaged: fc.Arbitrary<Buffer> = fc
  .tuple(
    texts,
    fc.array(fc.tuple(fc.nat(), fc.nat(4), fc.constantFrom(Buffer.alloc(0), ...HOSTILE, ...BYTES)), { maxLength: 2 }),
  )
  .map(([text, edits]) =>
    edits.reduce<Buffer>((now, [where, length, put]) => {
      const at = where % (now.length + 1);
      return Buffer.concat([now.subarray(0, at), put, now.subarray(at + length)]);
    }, Buffer.from(text)),
  );

/** The same bytes within a larger buffer, as a record lies within a fetch: what stands behind them must not be taken for their end. */
export function within(bytes: Buffer, before: string, behind: string): Buffer {
  const whole = Buffer.concat([Buffer.from(before), bytes, Buffer.from(behind)]);
  return whole.subarray(before.length, before.length + bytes.length);
}
