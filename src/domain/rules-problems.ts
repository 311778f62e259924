import type { z } from 'zod';
import { show } from './channel-name.js';

/** One broken rule: where in the document (`channels.ALIPAY.window`, `routes[3].to`), and which rule the value breaks. */
export type Problem = { readonly path: string; readonly message: string };

type Path = readonly PropertyKey[];
type Issue = z.core.$ZodIssue;

/** The only fields of a receiver whose values may appear in a message: every other may hold a token, in a misplaced URL too. */
const SHOWN_OF_RECEIVER = new Set<PropertyKey>(['type', 'locale', 'timeZone', 'timeout']);
const PROBLEMS_MOST = 50;

/** All that zod found, as sentences for the person who wrote the document: path, rule and the value it got. */
export function explainIssues(issues: readonly Issue[], document: unknown): Problem[] {
  return atMost(issues.flatMap((issue) => explain(issue, [], document)));
}

/** Each problem once, and not more of them than a person reads. */
export function atMost(problems: readonly Problem[]): Problem[] {
  const distinct = [...new Map(problems.map((problem) => [`${problem.path} ${problem.message}`, problem])).values()];
  if (distinct.length <= PROBLEMS_MOST) return distinct;
  return [
    ...distinct.slice(0, PROBLEMS_MOST),
    { path: '', message: `and ${distinct.length - PROBLEMS_MOST} more problems` },
  ];
}

/** `a.b[2].c`; names that are not plain words are quoted. A position in a list is told as people count it, too: see {@link problemAt}. */
export function formatPath(path: Path): string {
  return path
    .map((step, i) => {
      if (typeof step === 'number') return `[${step}]`;
      const text = String(step);
      const plain = /^[\p{L}\p{N}_*/:@-]+$/u.test(text) ? text : show(text);
      return i === 0 ? plain : `.${plain}`;
    })
    .join('');
}

/** A problem at a path; within a list the message also names the item, counted from 1. */
export function problemAt(path: Path, message: string): Problem {
  const at = path.findLastIndex((step) => typeof step === 'number');
  const item = at < 0 ? '' : `item ${Number(path[at]) + 1} of ${formatPath(path.slice(0, at))}: `;
  return { path: formatPath(path), message: item + message };
}

function explain(issue: Issue, parent: Path, document: unknown): Problem[] {
  const path = [...parent, ...issue.path];
  if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => unknownKey(path, key, document));
  if (issue.code === 'invalid_union') {
    const branch = closestBranch(issue.errors);
    if (branch !== undefined) return branch.flatMap((inner) => explain(inner, path, document));
  }
  return [problemAt(path, `${issue.message}${gotValue(path, document)}`)];
}

/** Of a union's branches the one whose type fits the value, when there is just one: its complaint is the one that helps. */
function closestBranch(branches: readonly (readonly Issue[])[]): readonly Issue[] | undefined {
  const fitting = branches.filter(
    (issues) => !issues.some((issue) => issue.path.length === 0 && isTypeMismatch(issue)),
  );
  return fitting.length === 1 ? fitting[0] : undefined;
}

function isTypeMismatch(issue: Issue): boolean {
  return issue.code === 'invalid_type' || issue.code === 'invalid_value';
}

function unknownKey(path: Path, key: string, document: unknown): Problem {
  const owner = valueAt(document, path);
  if (key === 'minCalls' && isRecord(owner)) {
    const field = ['size', 'window', 'windowSize'].find((name) => name in owner);
    const window = field === undefined ? 'a count window' : `a count window (${field} ${show(owner[field])})`;
    return problemAt(
      [...path, key],
      `minCalls ${show(owner[key])} does not go with ${window}: only windows of kind time and log have minCalls`,
    );
  }
  return problemAt([...path, key], `${show(key)} is not a known key`);
}

function gotValue(path: Path, document: unknown): string {
  if (path[0] === 'receivers' && !SHOWN_OF_RECEIVER.has(path.at(-1)!)) return '';
  const value = valueAt(document, path);
  return value === undefined ? ', got nothing' : `, got ${show(value)}`;
}

function valueAt(document: unknown, path: Path): unknown {
  let value = document;
  for (const step of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined;
    value = (value as Record<PropertyKey, unknown>)[step];
  }
  return value;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
