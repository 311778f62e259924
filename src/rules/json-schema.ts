import { z } from 'zod';
import { FlatRules, RulesDocument } from '../domain/rules-schema.js';

/**
 * The JSON Schema (draft 2020-12) of what people write, for editors: `docs/rules.schema.json`. It says shapes, types and ranges; that
 * names exist and that a rate has two decimals at most, only `fuseline rules check` can say.
 */
export function rulesJsonSchema(): object {
  const { $schema, ...schema } = z.toJSONSchema(z.union([RulesDocument, FlatRules]), { io: 'input' });
  return { $schema, title: 'Fuseline rules', description: 'The rules document: full form, or flat form.', ...schema };
}

/** The text of the file, to the last byte. */
export function rulesJsonSchemaText(): string {
  return `${JSON.stringify(rulesJsonSchema(), null, 2)}\n`;
}
