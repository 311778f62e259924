/** Results, for people and pipes: standard output. */
export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** What goes on, and what went wrong: standard error, so that it does not end up in a pipe. */
export function note(line: string): void {
  process.stderr.write(`${line}\n`);
}

export function printJson(value: unknown): void {
  print(JSON.stringify(value, null, 2));
}

/** Bold on a terminal that wants it (see no-color.org); plain everywhere else. */
export function bold(text: string): string {
  return process.stdout.isTTY && !process.env.NO_COLOR ? `\u001b[1m${text}\u001b[22m` : text;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are exactly what is replaced here
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** A text that somebody else stored, safe on a terminal: no control characters, no change of writing direction. */
export function plain(text: string): string {
  return text.replaceAll(CONTROL, '?');
}

const WIDE =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\u3000-\u303e\uff01-\uff60\uffe0-\uffe6]/u;
const segmenter = new Intl.Segmenter();

/** Columns that a text takes on a terminal: 2 for each Chinese, Japanese or Korean character, emoji and full-width form. */
export function widthOf(text: string): number {
  let width = 0;
  for (const { segment } of segmenter.segment(text)) width += WIDE.test(segment) ? 2 : 1;
  return width;
}

/** Columns side by side, two spaces between, nothing after the last; the header in bold. */
export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = rows.map((row) => row.map(plain));
  const widths = header.map((title, i) => Math.max(widthOf(title), ...cells.map((row) => widthOf(row[i] ?? ''))));
  const line = (row: readonly string[]) =>
    row
      .map((cell, i) => (i === row.length - 1 ? cell : cell + ' '.repeat(widths[i]! - widthOf(cell))))
      .join('  ')
      .trimEnd();
  return [bold(line(header)), ...cells.map(line)].join('\n');
}

/** `2h 5m`, `45s`: the two largest units, rounded down; `0s` below a second. */
export function roughly(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  const parts = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3_600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'm'],
    [seconds % 60, 's'],
  ] as const;
  const first = parts.findIndex(([n]) => n > 0);
  if (first === -1) return '0s';
  return parts
    .slice(first, first + 2)
    .filter(([n]) => n > 0)
    .map(([n, unit]) => `${n}${unit}`)
    .join(' ');
}

/** A moment by this machine's time zone, `2026-11-29 20:50:06`. */
export function localTime(ms: number): string {
  return new Date(ms).toLocaleString('sv-SE');
}
