import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { Ajv, type ValidateFunction } from 'ajv';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { parseOutcome } from '../../src/domain/outcome.js';
import { decodeRecord } from '../../src/transport/kafka/decode.js';
import { DEFAULT_TOPIC, deadTopic } from '../../src/transport/kafka/options.js';
import type { LogEntry } from '../../src/transport/port.js';
import { decodeEntry } from '../../src/transport/redis-stream/decode.js';
import { checkout } from '../support/files.js';

type Example = { name: string; payload: unknown };
type Message = { examples?: Example[]; 'x-refused'?: Example[] };

const document = parse(readFileSync(`${checkout}docs/asyncapi.yaml`, 'utf8'));
const messages: Record<string, Message> = document.components.messages;
const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true });
ajv.addSchema(document, 'asyncapi');
const payloadOf = (message: string): ValidateFunction =>
  ajv.compile({ $ref: `asyncapi#/components/messages/${message}/payload` });

const fromKafka = (payload: unknown): LogEntry => {
  const value = payload === null ? null : Buffer.from(JSON.stringify(payload));
  return decodeRecord({ key: null, value, offset: '1', timestamp: '1', attributes: 0, headers: {} });
};
const fromRedis = (payload: unknown): LogEntry =>
  decodeEntry('1-1', Object.entries(payload as Record<string, string>).flat());
const READ = {
  outcome: fromKafka,
  outcomesOfOneChannel: fromKafka,
  outcomeAsFields: fromRedis,
  outcomesAsField: fromRedis,
};
const every = Object.entries(READ);
const examplesOf = (kind: 'examples' | 'x-refused') =>
  every.flatMap(([message, read]) => messages[message]![kind]!.map((one) => ({ message, read, ...one })));

/** Whether our workers judge all that the payload holds. */
function isTaken(read: (payload: unknown) => LogEntry, payload: unknown): boolean {
  const { outcomes, fault } = read(payload);
  return fault === undefined && outcomes.length > 0 && outcomes.every((one) => parseOutcome(one).ok);
}

describe('docs/asyncapi.yaml', () => {
  it('is a valid AsyncAPI 3.0 document, whose references lead somewhere', () => {
    const schema = createRequire(import.meta.url)('@asyncapi/specs/schemas/3.0.0-without-$id.json');
    const isValid = new Ajv({ strict: false, validateFormats: false, allErrors: false }).compile(schema);
    expect(isValid(document), JSON.stringify(isValid.errors?.slice(0, 3))).toBe(true);
    expect(isValid({ ...document, channels: { x: { address: 7 } } }), 'it can fail').toBe(false);
    const texts: string[] = JSON.stringify(document).match(/"#\/[^"]+"/g) ?? [];
    for (const text of texts) {
      const path = JSON.parse(text).slice(2).split('/') as string[];
      expect(
        path.reduce<unknown>((at, name) => (at as Record<string, unknown>)?.[name], document),
        text,
      ).toBeDefined();
    }
  });

  it('names the topics that workers read and bury in', () => {
    expect(document.channels.kafkaOutcomes.address).toBe(DEFAULT_TOPIC);
    expect(document.channels.kafkaDeadLetters.address).toBe(deadTopic(DEFAULT_TOPIC));
  });

  it.each(examplesOf('examples'))(
    'the example $name of $message is valid, and taken by workers',
    ({ message, read, payload }) => {
      const isValid = payloadOf(message);
      expect(isValid(payload), JSON.stringify(isValid.errors)).toBe(true);
      expect(isTaken(read, payload)).toBe(true);
    },
  );

  it.each(examplesOf('x-refused'))(
    'the bad example $name of $message is refused by workers',
    ({ message, read, payload }) => {
      expect(isTaken(read, payload)).toBe(false);
      // That all are of one channel no schema can say.
      if (message !== 'outcomesOfOneChannel') expect(payloadOf(message)(payload)).toBe(false);
    },
  );

  it('its schema of an outcome takes exactly what workers take, whatever a program may send', () => {
    const isValid = payloadOf('outcome');
    const optional = (...values: fc.Arbitrary<unknown>[]) =>
      fc.option(fc.oneof(...values), { nil: undefined, freq: 2 });
    const ms = (most: number) => fc.constantFrom(0, 0.5, most, most + 1, -1, -0.001);
    const other = fc.constantFrom(null, true, [], {}, [1]);
    const name = fc.oneof(
      fc.constantFrom(
        'A',
        '微信支付',
        'a b',
        ' a',
        'a ',
        '\u00a0a',
        '',
        '{',
        'a}',
        '\u0000',
        'a\u009f',
        '\ufffd',
        'x'.repeat(129),
      ),
      fc.constantFrom('x'.repeat(128), '\u{1f4b3}', 'a\nb', '\u3000a', 'caf\u00e9'),
      fc.string({ maxLength: 12, unit: 'grapheme' }),
    );
    const outcome = fc.record(
      {
        channel: fc.oneof(name, { arbitrary: other, weight: 1 }),
        success: fc.oneof(
          fc.constantFrom(true, false, 0, 1, '0', '1', 'true', 'false'),
          fc.constantFrom(2, 'yes', '', null),
        ),
        durationMs: optional(ms(3_600_000), other),
        agoMs: optional(ms(86_400_000), other),
        retryAfterMs: optional(ms(86_400_000), other),
        code: optional(fc.string(), fc.integer(), other),
        source: optional(fc.string(), other),
        at: optional(fc.integer(), fc.constantFrom('2026', 'x'.repeat(64), 'x'.repeat(65)), other),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(outcome, (one) => {
        const sent = JSON.parse(JSON.stringify(one));
        expect(isValid(sent), JSON.stringify(isValid.errors)).toBe(parseOutcome(sent).ok);
      }),
      { numRuns: 5_000 },
    );
  });
});
