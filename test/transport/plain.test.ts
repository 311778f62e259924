import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Outcome, parseOutcome } from '../../src/domain/outcome.js';
import { readOutcome } from '../../src/publisher/read-outcome.js';
import { outcomeText } from '../../src/transport/outcome-text.js';
import { eachPlain } from '../../src/transport/plain.js';
import { damaged, valid, within, write } from '../support/outcome-texts.js';

const judged = ({ channel, success, durationMs, retryAfterMs, code, source, agoMs }: Outcome) => ({
  ...{ channel, success, durationMs, retryAfterMs, code, source, agoMs },
});

/** The short way's outcomes, if it takes the text. */
function plain(text: string | Buffer, alone = false): object[] | undefined {
  const found: object[] = [];
  const isPlain = eachPlain(Buffer.from(text), alone, (outcome) => found.push(judged(outcome)));
  expect(isPlain).toBe(found.length > 0);
  return isPlain ? found : undefined;
}

/** The long way's. @throws it is no JSON, or one of them is no outcome */
function long(text: string): object[] {
  const parsed: unknown = JSON.parse(text);
  return (Array.isArray(parsed) ? parsed : [parsed]).map((raw) => {
    const read = parseOutcome(raw);
    if (!read.ok) throw new Error(read.reason);
    return judged(read.outcome);
  });
}

describe('the short way from bytes to outcomes', () => {
  it('gives what the long way gives, or nothing, whatever the bytes and whatever lies around them', () => {
    let taken = 0;
    fc.assert(
      fc.property(
        damaged,
        fc.constantFrom('', '[', '"'),
        fc.constantFrom('', ']', '}', ',', '"}', '{"channel"'),
        (bytes, before, behind) => {
          const found: object[] = [];
          if (!eachPlain(within(bytes, before, behind), false, (outcome) => found.push(judged(outcome)))) {
            expect(found).toEqual([]);
            return;
          }
          taken += 1;
          expect(found).toEqual(long(bytes.toString()));
        },
      ),
      { numRuns: 5_000 },
    );
    expect(taken).toBeGreaterThan(300);
  });

  it('takes what publishers write, alone and in arrays, with or without blanks, in any order of fields', () => {
    const some = fc.array(valid, { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(some, fc.constantFrom('', ' '), fc.boolean(), (all, blank, isTurned) => {
        const written = all.map((each) => write(each, blank, isTurned));
        const text = `[${written.join(`,${blank}`)}]`;
        expect(plain(text)).toEqual(long(text));
        expect(plain(written[0]!)).toEqual(long(written[0]!));
      }),
    );
  });

  it('takes what our own publishers make of any outcome without escapes', () => {
    fc.assert(
      fc.property(valid, ({ agoMs, ...given }) => {
        const outcome = readOutcome(given, 'checkout@web-2');
        if (typeof outcome === 'string') throw new Error(outcome);
        const text = outcomeText(outcome, agoMs ?? 0);
        expect(plain(text)).toEqual(long(text));
      }),
    );
  });

  it('reads every number as JSON.parse does', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^(0|[1-9]\d{0,5})(\.\d{1,20})?$/), (number) => {
        const text = `{"channel":"A","success":true,"durationMs":${number}}`;
        expect(plain(text)).toEqual(long(text));
      }),
      { numRuns: 2_000 },
    );
  });

  it('takes no other field for one it knows, whichever letter differs', () => {
    const values = { durationMs: 1, retryAfterMs: 1, code: '"A"', at: 1, source: '"s"', agoMs: 1 };
    for (const [field, value] of Object.entries(values)) {
      const textWith = (name: string) => `{"channel":"A","success":true,"${name}":${value}}`;
      expect(plain(textWith(field))).toHaveLength(1);
      for (let i = 0; i < field.length; i += 1)
        expect(
          plain(textWith(`${field.slice(0, i)}x${field.slice(i + 1)}`)),
          `letter ${i} of ${field}`,
        ).toBeUndefined();
    }
    for (const name of ['channel', 'success'])
      for (let i = 0; i < name.length; i += 1)
        expect(
          plain(`{"channel":"A","success":true}`.replace(name, `${name.slice(0, i)}x${name.slice(i + 1)}`)),
        ).toBeUndefined();
  });

  it('takes the outcomes of several channels only where they may lie together', () => {
    const text = '[{"channel":"A","success":true},{"channel":"B","success":true}]';
    expect(plain(text)).toHaveLength(2);
    expect(plain(text, true)).toBeUndefined();
    expect(
      plain('[{"channel":"caf\u00e9","success":true},{"channel":"cafe\u0301","success":true}]', true),
    ).toHaveLength(2);
  });

  it('leaves to the long way what is empty, too much, or of another kind', () => {
    const one = '{"channel":"A","success":true}';
    for (const text of [
      '',
      '[]',
      '{}',
      '[{}]',
      '""',
      'null',
      '{"success":true}',
      `[${one}`,
      `${one},`,
      ` ${one}`,
      `[${one}]]`,
    ])
      expect(plain(text)).toBeUndefined();
    expect(plain(`[${Array(1_000).fill(one).join(',')}]`)).toHaveLength(1_000);
    expect(plain(`[${Array(1_001).fill(one).join(',')}]`)).toBeUndefined();
  });

  it('goes on telling names and codes apart when it has seen more of them than it remembers', () => {
    const texts = Array.from(
      { length: 12_000 },
      (_, i) => `{"channel":"c${i}","success":false,"code":"E${i % 11_000}"}`,
    );
    for (let from = 0; from < texts.length; from += 1_000) {
      const text = `[${texts.slice(from, from + 1_000).join(',')}]`;
      expect(plain(text)).toEqual(long(text));
    }
    // Their sums, by which they are found, are equal.
    const alike = '[{"channel":"Aa","success":true},{"channel":"BB","success":true},{"channel":"Aa","success":true}]';
    expect(plain(alike)).toEqual(long(alike));
  });
});
