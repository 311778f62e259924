/** How much one code point counts against a limit: UTF-16 units by default, as most vendors count. */
export type Measure = (codePoint: string) => number;

const units: Measure = (codePoint) => codePoint.length;

/** Cuts at a code point, so that no half of an emoji is left, and marks the cut with `…`. The result measures at most `most`. */
export function cut(text: string, most: number, measure: Measure = units): string {
  let used = 0;
  let kept = '';
  const room = most - measure('…');
  for (const codePoint of text) {
    const size = measure(codePoint);
    if (used + size > room) return total(text, measure) <= most ? text : room < 0 ? '' : `${kept}…`;
    used += size;
    kept += codePoint;
  }
  return text;
}

function total(text: string, measure: Measure): number {
  let sum = 0;
  for (const codePoint of text) sum += measure(codePoint);
  return sum;
}

/**
 * Text from outside (channel names, codes, notes) made safe for one line: control characters and line ends become spaces, and
 * marks that turn the direction of writing, which can make a name read as another, are left out.
 */
export function oneLine(text: string): string {
  return text
    .toWellFormed()
    .replace(/[\p{Cc}\u2028\u2029]+/gu, ' ')
    .replace(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '')
    .trim();
}
