import { describe, expect, it } from 'vitest';
import { parseOutcome } from '../../src/domain/outcome.js';
import { shardOf } from '../../src/domain/shard.js';
import { RAW_MAX } from '../../src/transport/port.js';
import { decodeEntry, OUTCOMES_MAX, OUTCOMES_MAX_BYTES } from '../../src/transport/redis-stream/decode.js';
import { isBefore, rewound } from '../../src/transport/redis-stream/stream-id.js';

const decode = (...fields: string[]) => decodeEntry('1700000000123-4', fields);
const packed = (value: unknown) => decode('v', '1', 'outcomes', JSON.stringify(value));

describe('an entry of the log', () => {
  it('holds one outcome as plain fields, all of them text', () => {
    const { outcomes, fault, position, arrivalMs } = decode('channel', 'ALIPAY', 'success', '0', 'durationMs', '12.5');
    expect(fault).toBeUndefined();
    expect({ position, arrivalMs }).toEqual({ position: '1700000000123-4', arrivalMs: 1_700_000_000_123 });
    expect(outcomes.map(parseOutcome)).toEqual([
      { ok: true, outcome: { channel: 'ALIPAY', success: false, durationMs: 12.5 } },
    ]);
  });

  it('holds many outcomes as a JSON array, of which a bad one harms only itself', () => {
    const { outcomes, fault } = packed([
      { channel: 'A', success: true },
      7,
      { channel: '', success: true },
      { channel: 'B', success: 0 },
    ]);
    expect(fault).toBeUndefined();
    expect(outcomes.map((one) => parseOutcome(one).ok)).toEqual([true, false, false, true]);
  });

  it.each([
    [[1], 'an outcome must be an object with channel and success, got [1]'],
    [null, 'an outcome must be an object with channel and success, got null'],
    [{ channel: 'A', success: true, durationMs: -1 }, 'durationMs must be a number from 0 to 3600000, got -1'],
    [{ channel: 'A', success: true, at: {} }, 'at must be a number (ms) or a text of at most 64 characters, got {}'],
  ])('%j is no outcome, and the reason says the rule and the value', (raw, reason) => {
    expect(parseOutcome(raw)).toEqual({ ok: false, reason });
  });

  it.each([
    ['both forms together', ['channel', 'A', 'success', '1', 'outcomes', '[]'], /not both/],
    ['a plain success beside an array', ['success', '1', 'outcomes', '[]'], /not both/],
    ['neither form', ['foo', 'bar'], /needs a field "channel" or a field "outcomes"/],
    ['a field given twice', ['channel', 'A', 'success', '1', 'success', '0'], /"success" is given twice/],
    ['no JSON', ['outcomes', '[{"channel":"A"'], /no JSON/],
    ['JSON followed by rubbish', ['outcomes', '[]garbage'], /no JSON/],
    ['nothing', ['outcomes', ''], /no JSON/],
    ['an object', ['outcomes', '{"channel":"A","success":true}'], /must be a JSON array, got object/],
    ['null', ['outcomes', 'null'], /must be a JSON array, got null/],
    ['a number', ['outcomes', '1e400'], /must be a JSON array, got number/],
    ['a byte order mark', ['outcomes', '\ufeff[]'], /no JSON/],
  ])('is a fault as a whole when it holds %s', (_name, fields, fault) => {
    const entry = decode(...fields);
    expect(entry.fault).toMatch(fault);
    expect(entry.outcomes).toEqual([]);
    expect(entry.fault!.length).toBeLessThan(300);
  });

  it('may carry 1,000 outcomes and 1 MiB, and not one more', () => {
    const one = { channel: 'A', success: true };
    expect(packed(Array.from({ length: OUTCOMES_MAX }, () => one)).outcomes).toHaveLength(1_000);
    expect(packed(Array.from({ length: OUTCOMES_MAX + 1 }, () => one)).fault).toMatch(
      /1000 outcomes at most, got 1001/,
    );
    const padding = (bytes: number) => `["${'x'.repeat(bytes - 4)}"]`;
    expect(decode('outcomes', padding(OUTCOMES_MAX_BYTES)).fault).toBeUndefined();
    expect(decode('outcomes', padding(OUTCOMES_MAX_BYTES + 1)).fault).toMatch(/1048576 bytes at most, got 1048577/);
    expect(decode('outcomes', `["${'微'.repeat(350_000)}"]`).fault).toMatch(/bytes at most/);
  });

  it('survives deep nesting and names from the prototype', () => {
    expect(decode('outcomes', '['.repeat(500_000)).fault).toMatch(/no JSON/);
    const deep = decode('outcomes', `[${'['.repeat(100_000)}${']'.repeat(100_000)}]`);
    expect(deep.outcomes.map((one) => parseOutcome(one).ok)).toEqual([false]);
    const hostile = decode('channel', 'A', 'success', '1', '__proto__', 'x', 'constructor', 'y');
    expect(parseOutcome(hostile.outcomes[0])).toMatchObject({ ok: true, outcome: { channel: 'A', success: true } });
  });

  it('keeps its text for the dead letter, cut', () => {
    const huge = decode('channel', 'x'.repeat(10_000_000));
    expect(huge.raw().length).toBe(RAW_MAX);
    expect(decode('a', '1').raw()).toBe('["a","1"]');
  });

  it('with bytes that were no UTF-8 in its channel is refused, and with such in other texts is kept', () => {
    expect(parseOutcome(decode('channel', 'A\ufffd', 'success', '1').outcomes[0])).toMatchObject({
      ok: false,
      reason: expect.stringContaining('UTF-8'),
    });
    expect(parseOutcome(decode('channel', 'A', 'success', '0', 'code', '\ufffd').outcomes[0]).ok).toBe(true);
  });
});

describe('stream ids', () => {
  it('are compared as numbers of 64 bits', () => {
    expect(isBefore('9-5', '10-0')).toBe(true);
    expect(isBefore('10-9', '10-10')).toBe(true);
    expect(isBefore('10-10', '10-10')).toBe(false);
    expect(isBefore('5-18446744073709551614', '5-18446744073709551615')).toBe(true);
    expect(rewound('1000-7', 30_000)).toBe('0-0');
    expect(rewound('100000-7', 30_000)).toBe('70000-0');
  });
});

describe('the shard of a channel', () => {
  it('is the CRC-32 of its UTF-8 bytes after NFC, modulo the number of shards, as other languages compute it', () => {
    // Python: zlib.crc32('微信支付'.encode()) etc.
    expect(shardOf('123456789', 2 ** 32)).toBe(0xcbf43926);
    expect(shardOf('cafe\u0301', 1_000)).toBe(shardOf('caf\u00e9', 1_000));
    expect([shardOf('ALIPAY', 4), shardOf('微信支付', 4)]).toEqual([1, 3]);
  });
});
