/** A line of input, counted from 1; without `text` when it cannot be one, and `fault` says why. */
export type Line =
  | { readonly number: number; readonly text: string; readonly fault?: undefined }
  | { readonly number: number; readonly text?: undefined; readonly fault: string };

/** What {@link readLines} reads from: a stream of Node, or whatever can be read and given up. */
export type LineInput = AsyncIterable<Buffer> & { destroy(): unknown };

/** More than any outcome can have. */
export const LINE_MAX_BYTES = 1_048_576;
const NEWLINE = 0x0a;

/**
 * The lines of a stream as UTF-8, with back-pressure: those of one chunk at a time, because a step of its own for each of a million
 * lines costs as much as reading it. Beside them it holds one line: a longer one than 1 MiB is skipped, not kept. Ends early on the
 * signal.
 */
export async function* readLines(input: LineInput, signal: AbortSignal): AsyncGenerator<Line[]> {
  const stop = () => void input.destroy();
  signal.addEventListener('abort', stop, { once: true });
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let number = 0;
  let parts: Buffer[] = [];
  let bytes = 0;

  /** The line that ends with `last`. */
  function take(last: Buffer): Line {
    keep(last);
    number += 1;
    const [whole, length] = [parts, bytes];
    [parts, bytes] = [[], 0];
    if (length > LINE_MAX_BYTES)
      return { number, fault: `a line may have ${LINE_MAX_BYTES} bytes at most, got ${length}` };
    try {
      // The decoder drops a byte order mark, which some programs begin their files with.
      return { number, text: decoder.decode(whole.length === 1 ? whole[0] : Buffer.concat(whole)) };
    } catch {
      return { number, fault: 'not UTF-8' };
    }
  }
  function keep(part: Buffer): void {
    bytes += part.length;
    if (bytes <= LINE_MAX_BYTES) parts.push(part);
    else parts = [];
  }

  try {
    for await (const chunk of input) {
      const lines: Line[] = [];
      let from = 0;
      for (let at = chunk.indexOf(NEWLINE); at !== -1; at = chunk.indexOf(NEWLINE, from)) {
        lines.push(take(chunk.subarray(from, at)));
        from = at + 1;
      }
      if (from < chunk.length) keep(chunk.subarray(from));
      if (lines.length > 0) yield lines;
    }
    if (bytes > 0) yield [take(Buffer.alloc(0))];
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
