import { formatPath } from '../domain/rules-problems.js';
import { REFERENCE_PATTERN } from '../domain/rules-schema.js';

/** One place in which two documents differ; `undefined` where a side has nothing. Secrets in clear are masked. */
export type RulesChange = { readonly path: string; readonly before: unknown; readonly after: unknown };

/**
 * Where two documents differ, as paths. Mappings are compared key by key, lists as wholes. The order of `channels` counts as well,
 * because of patterns the first one wins.
 */
export function diffRules(before: unknown, after: unknown): RulesChange[] {
  return compare([], maskSecrets(before), maskSecrets(after), before, after);
}

const LINES_MOST = 20;
const LINE_MOST = 200;

/** A diff as text, one line for each place, short enough to be stored: what is cut off is said. */
export function changeLines(changes: readonly RulesChange[]): string[] {
  const show = (value: unknown) => (value === undefined ? 'nothing' : JSON.stringify(value));
  const short = (text: string) => (text.length > LINE_MOST ? `${text.slice(0, LINE_MOST).toWellFormed()}…` : text);
  const lines = changes
    .slice(0, LINES_MOST)
    .map(({ path, before, after }) => short(`${path || 'rules'}: ${show(before)} -> ${show(after)}`));
  const more = changes.length - lines.length;
  return more > 0 ? [...lines, `and ${more} more`] : lines;
}

/** A copy for printing: a receiver's URL and secret are masked unless they are references (`env:NAME`, `file:/path`). */
export function maskSecrets(document: unknown): unknown {
  if (!isMapping(document) || !isMapping(document.receivers)) return document;
  const receivers = Object.entries(document.receivers).map(([name, rule]) => [
    name,
    isMapping(rule) ? maskReceiver(rule) : '***',
  ]);
  return { ...document, receivers: Object.fromEntries(receivers) };
}

/** Walks the real documents for what differs, and the masked ones beside them for what may be shown. */
function compare(
  path: string[],
  shownBefore: unknown,
  shownAfter: unknown,
  before: unknown,
  after: unknown,
): RulesChange[] {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  if (!isMapping(before) || !isMapping(after))
    return [{ path: formatPath(path), before: shownBefore, after: shownAfter }];
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const changes = names.flatMap((name) =>
    compare([...path, name], part(shownBefore, name), part(shownAfter, name), part(before, name), part(after, name)),
  );
  if (changes.length > 0 || path[0] !== 'channels' || path.length > 1) return changes;
  return [{ path: 'channels (order)', before: Object.keys(before), after: Object.keys(after) }];
}

function maskReceiver(rule: Record<string, unknown>): Record<string, unknown> {
  const masked = Object.entries(rule).map(([key, value]) => [
    key,
    key === 'url' || key === 'secret' ? mask(value) : value,
  ]);
  return Object.fromEntries(masked);
}

function mask(value: unknown): unknown {
  if (typeof value !== 'string' || REFERENCE_PATTERN.test(value)) return value;
  return URL.canParse(value) && /^https?:/.test(value) ? `${new URL(value).origin}/***` : '***';
}

function part(value: unknown, name: string): unknown {
  return isMapping(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
