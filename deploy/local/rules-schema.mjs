// Writes docs/rules.schema.json from the zod schemas: `npm run build && node deploy/local/rules-schema.mjs`.

import { mkdir, writeFile } from 'node:fs/promises';

const { rulesJsonSchemaText } = await import(new URL('../../dist/src/rules/json-schema.js', import.meta.url).href);
const target = new URL('../../docs/rules.schema.json', import.meta.url);
await mkdir(new URL('.', target), { recursive: true });
await writeFile(target, rulesJsonSchemaText());
