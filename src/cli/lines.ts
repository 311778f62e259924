/** A line of input, counted from 1; without `text` when it cannot be one, and `fault` says why. */
export type Line =
  | { readonly number: number; readonly text: string; readonly fault?: undefined }
  | { readonly number: number; readonly text?: undefined; readonly fault: string };

/** More than any outcome can have. */
export const LINE_MAX_BYTES = 1_048_576;
const NEWLINE = 0x0a;

/**
 * The lines of a stream as UTF-8, with back-pressure. Holds one line at a time: a longer one than 1 MiB is skipped, not kept. Ends early
 * on the signal.
 */
export async function* readLines(
  input: AsyncIterable<Buffer> & { destroy(): unknown },
  signal: AbortSignal,
): AsyncGenerator<Line> {
  const stop = () => void input.destroy();
  signal.addEventListener('abort', stop, { once: true });
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let number = 0;
  let parts: Buffer[] = [];
  let bytes = 0;

  function take(): Line {
    number += 1;
    const [whole, length] = [parts, bytes];
    [parts, bytes] = [[], 0];
    if (length > LINE_MAX_BYTES)
      return { number, fault: `a line may have ${LINE_MAX_BYTES} bytes at most, got ${length}` };
    try {
      // The decoder drops a byte order mark, which some programs begin their files with.
      return { number, text: decoder.decode(Buffer.concat(whole)) };
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
      let from = 0;
      for (let at = chunk.indexOf(NEWLINE); at !== -1; at = chunk.indexOf(NEWLINE, from)) {
        keep(chunk.subarray(from, at));
        yield take();
        from = at + 1;
      }
      keep(chunk.subarray(from));
    }
    if (bytes > 0) yield take();
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
