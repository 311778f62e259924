import { type Document, isScalar, LineCounter, parseDocument, stringify, visit } from 'yaml';
import { type ParsedRules, parseRulesValue, RULES_MAX_BYTES } from '../domain/rules.js';
import type { Problem } from '../domain/rules-problems.js';

/** A document as it was written: its value, or why the text is neither YAML nor JSON. */
export type ReadText =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/**
 * Checks a rules document, given as YAML text, JSON text or a value. As a whole: one broken item refuses all of it. Never throws.
 */
export function parseRules(textOrValue: unknown): ParsedRules {
  if (typeof textOrValue !== 'string') return parseRulesValue(textOrValue);
  const read = readText(textOrValue);
  return read.ok ? parseRulesValue(read.value) : read;
}

/**
 * The value that a YAML or JSON text holds. JSON is read as YAML too, because that way a key written twice is refused instead of the
 * last one winning. Messages name line and column and never quote the text: it may hold secrets.
 */
export function readText(text: string): ReadText {
  const bytes = Buffer.byteLength(text);
  if (bytes > RULES_MAX_BYTES) return refuse('', `the rules must have at most ${RULES_MAX_BYTES} bytes, got ${bytes}`);
  const lineCounter = new LineCounter();
  const at = (offset: number) => {
    const { line, col } = lineCounter.linePos(offset);
    return `line ${line}, column ${col}`;
  };
  try {
    const document = parseDocument(text, {
      lineCounter,
      prettyErrors: false,
      stringKeys: true,
      uniqueKeys: false,
      logLevel: 'error',
    });
    const [error] = document.errors;
    if (error !== undefined)
      return refuse(at(error.pos[0]), `not YAML or JSON (${error.code.toLowerCase().replaceAll('_', ' ')})`);
    const twice = repeatedKey(document);
    if (twice !== undefined) return refuse(at(twice), 'this key is written twice in one mapping');
    return { ok: true, value: document.toJS({ maxAliasCount: 100 }) };
  } catch (error) {
    return refuse(
      '',
      `not YAML or JSON (${error instanceof RangeError ? 'nested too deep' : 'references that cannot be followed'})`,
    );
  }
}

/** Where a key stands for the second time. Ours, because the parser's own check compares every key of a mapping with every other. */
function repeatedKey(document: Document): number | undefined {
  let found: number | undefined;
  visit(document, {
    Map(_key, map) {
      const keys = new Set<unknown>();
      for (const { key } of map.items) {
        const name = isScalar(key) ? key.value : key;
        if (keys.has(name)) {
          found = (isScalar(key) ? key.range?.[0] : undefined) ?? 0;
          return visit.BREAK;
        }
        keys.add(name);
      }
      return undefined;
    },
  });
  return found;
}

function refuse(path: string, message: string): ReadText & { ok: false } {
  return { ok: false, problems: [{ path, message }] };
}

/** A document as YAML text, for people to read and to edit. */
export function printRules(document: unknown): string {
  return stringify(document).trimEnd();
}
