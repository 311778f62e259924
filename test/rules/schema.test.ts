import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import { rulesJsonSchema, rulesJsonSchemaText } from '../../src/rules/json-schema.js';
import { parseRules, readText } from '../../src/rules/parse.js';

describe('docs/rules.schema.json', () => {
  it('is the one that the code makes (else: npm run build && node deploy/local/rules-schema.mjs)', () => {
    expect(readFileSync(new URL('../../docs/rules.schema.json', import.meta.url), 'utf8')).toBe(rulesJsonSchemaText());
  });

  it('accepts and refuses as the parser does, as far as shapes go', () => {
    const validate = new Ajv2020({ strict: false }).compile(rulesJsonSchema());
    const accepts = (text: string) => {
      const read = readText(text);
      return read.ok && validate(read.value);
    };
    const documents: [text: string, good: boolean][] = [
      [
        '{ mode: on, defaults: { window: { kind: time, span: 30s, minCalls: 5 }, block: { for: 1m, growth: 2 }, hold: 0 } }',
        true,
      ],
      ['{ switchMode: ",A,B,", windowSize: 10 }', true],
      ['{ mode: on, channels: { A: { window: 1001 } } }', false],
      ['{ mode: on, channels: { A: { successRate: "80%" } } }', false],
      ['{ mode: on, defaults: { block: 30 } }', false],
      ['{ mode: on, surprise: 1 }', false],
    ];
    expect(documents.map(([text]) => accepts(text))).toEqual(documents.map(([, good]) => good));
    expect(documents.map(([text]) => parseRules(text).ok)).toEqual(documents.map(([, good]) => good));
  });
});
