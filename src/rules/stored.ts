import { createHash } from 'node:crypto';
import { z } from 'zod';
import { isEmptyDocument, type ParsedRules, parseRulesValue, type Rules } from '../domain/rules.js';
import type { Problem } from '../domain/rules-problems.js';
import { readText } from './parse.js';

/** How we write `fuseline:config`. Open: fields of later versions are ignored. */
const Envelope = z.looseObject({
  v: z.number().int().min(1),
  version: z.number().int().min(0),
  actor: z.string().default('unknown'),
  at: z.string().default(''),
  /** An empty document that somebody confirmed: it may replace a running one. */
  confirmedEmpty: z.boolean().default(false),
  rules: z.unknown(),
});

/** What `fuseline:config` holds, read but not yet judged. */
export type StoredRules = {
  /** The text as it lies in Redis. */
  readonly text: string;
  /** Ours: counted up by each `setRules`. Of a bare document: its own `version`, or 0. */
  readonly version: number;
  /** Who put it there; `undefined` for a bare document, which somebody wrote with SET. */
  readonly actor?: string;
  /** ISO time by the clock of whoever put it there. For people. */
  readonly at?: string;
  readonly confirmedEmpty: boolean;
  /** The document as written, as a value; `undefined` when the text cannot be read. */
  readonly document: unknown;
  /** Set when the text is neither ours, nor YAML or JSON. */
  readonly unreadable?: readonly Problem[];
};

/** Reads the text under `fuseline:config`: our envelope, or a bare document in full or flat form, as YAML or JSON. */
export function readStored(text: string): StoredRules {
  const envelope = Envelope.safeParse(jsonOf(text));
  if (envelope.success) {
    const { version, actor, at, confirmedEmpty, rules } = envelope.data;
    return { text, version, actor, at, confirmedEmpty, document: rules };
  }
  const read = readText(text);
  if (!read.ok) return { text, version: 0, confirmedEmpty: false, document: undefined, unreadable: read.problems };
  return { text, version: versionOf(read.value), confirmedEmpty: false, document: read.value };
}

/** Judges a stored document; the version in force is the store's, not the one that the document was written with. */
export function judgeStored(stored: StoredRules): ParsedRules {
  if (stored.unreadable !== undefined) return { ok: false, problems: stored.unreadable };
  const parsed = parseRulesValue(stored.document);
  return parsed.ok ? { ...parsed, rules: withVersion(parsed.rules, stored.version) } : parsed;
}

/** The text that `setRules` puts under `fuseline:config`. */
export function writeStored(version: number, actor: string, document: unknown, now = new Date()): string {
  const confirmedEmpty = isEmptyDocument(document);
  return JSON.stringify({
    v: 1,
    version,
    actor,
    at: now.toISOString(),
    ...(confirmedEmpty ? { confirmedEmpty } : {}),
    rules: document ?? null,
  });
}

/** SHA-1 as Redis computes it: of the UTF-8 bytes, in hex. */
export function sha1(text: string): string {
  return createHash('sha1').update(text).digest('hex');
}

function withVersion(rules: Rules, version: number): Rules {
  return rules.version === version ? rules : { ...rules, version };
}

function versionOf(document: unknown): number {
  const version = z.object({ version: z.number().int().min(1) }).safeParse(document);
  return version.success ? version.data.version : 0;
}

function jsonOf(text: string): unknown {
  if (!text.startsWith('{')) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
