import type { Outcome } from '../domain/outcome.js';

/** Texts remembered with their quotes: channels, codes and sources are few and come a million times. */
const QUOTED_MOST = 2_000;
const quoted = new Map<string, string>();

/**
 * JSON of an outcome with its waiting time, as `JSON.stringify({ ...outcome, agoMs })` gives it, in a fifth of the time: the copy and the
 * looking for what has to be escaped cost more than all the rest of publishing.
 */
export function outcomeText(outcome: Outcome, agoMs: number): string {
  let text = '{';
  for (const field in outcome) {
    const value = outcome[field as keyof Outcome];
    if (value === undefined || field === 'agoMs') continue;
    text += `"${field}":${typeof value === 'string' ? quote(value) : value},`;
  }
  return `${text}"agoMs":${agoMs}}`;
}

function quote(text: string): string {
  const known = quoted.get(text);
  if (known !== undefined) return known;
  const made = JSON.stringify(text);
  if (quoted.size >= QUOTED_MOST) quoted.clear();
  quoted.set(text, made);
  return made;
}
