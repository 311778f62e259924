import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { readRecordedLine } from '../recording/line.js';
import { type LineInput, readLines } from '../recording/lines.js';
import { mergeByArrival } from './merge.js';
import { CannotRead, PastEntry, type Reading, type TimeRange, tellBad } from './past.js';

/** Measured: of larger reads so much lives at once that the collector copies it about. */
const READ_BYTES = 1 << 17;

/**
 * The outcomes of recordings, or of any files with one outcome as JSON a line, by arrival; `-` is `input`, and a name that ends with
 * `.gz` is unpacked. Holds a chunk of each file, whatever their length.
 *
 * @throws {CannotRead} a file is not there, or is none
 */
export async function readFiles(
  paths: readonly string[],
  { range, reading, input }: { range: TimeRange; reading: Reading; input: LineInput },
): Promise<AsyncIterable<readonly PastEntry[]>> {
  const sizes = await Promise.all(paths.map(sizeOf));
  const total = sizes.reduce<number | undefined>((sum, n) => (sum === undefined || n === undefined ? n : sum + n), 0);
  const opened = paths.map((path) => open(path, input));
  reading.progress = () => ({
    done: opened.reduce((sum, { bytesRead }) => sum + bytesRead(), 0),
    ...(total === undefined ? {} : { total }),
  });
  const many = paths.length > 1;
  return mergeByArrival(
    opened.map(({ lines }, source) => read(lines, { source, range, reading, path: paths[source]!, many })),
  );
}

type Read = { source: number; range: TimeRange; reading: Reading; path: string; many: boolean };

async function* read(input: LineInput, { source, range, reading, path, many }: Read): AsyncGenerator<PastEntry[]> {
  const partition = `file/${source}`;
  try {
    for await (const lines of readLines(input, new AbortController().signal)) {
      const entries: PastEntry[] = [];
      for (const { number, text, fault } of lines) {
        if (text?.trim() === '') continue;
        reading.read += 1;
        const line = text === undefined ? { ok: false as const, reason: fault! } : readRecordedLine(text);
        if (!line.ok) {
          tellBad(reading, many ? `${path} line ${number}` : `line ${number}`, line.reason);
          continue;
        }
        const { outcome, arrivalMs, place } = line.recorded;
        if (arrivalMs < range.fromMs || arrivalMs >= range.toMs) reading.outOfRange += 1;
        else if (place === undefined)
          entries.push(new PastEntry(partition, String(number), arrivalMs, [outcome], source));
        else entries.push(new PastEntry(place.partition, place.position, arrivalMs, [outcome], source));
      }
      yield entries;
    }
  } catch (error) {
    reading.endsEarly.push(`${path}: ${reasonOf(error)}`);
  }
}

type Opened = { readonly lines: LineInput; readonly bytesRead: () => number };

function open(path: string, input: LineInput): Opened {
  if (path === '-') return { lines: input, bytesRead: () => 0 };
  const file = createReadStream(path, { highWaterMark: READ_BYTES });
  const bytesRead = () => file.bytesRead;
  if (!path.endsWith('.gz')) return { lines: file, bytesRead };
  // Errors of the file end what is read from it.
  return { lines: pipeline(file, createGunzip({ chunkSize: READ_BYTES }), () => {}), bytesRead };
}

/** `undefined`: unknown. */
async function sizeOf(path: string): Promise<number | undefined> {
  if (path === '-') return undefined;
  try {
    const found = await stat(path);
    if (found.isDirectory()) throw new CannotRead(`${path} is a folder, not a file of outcomes`);
    return found.isFile() ? found.size : undefined;
  } catch (error) {
    if (error instanceof CannotRead) throw error;
    throw new CannotRead(`${path} cannot be read (${reasonOf(error)})`, { cause: error });
  }
}

function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code ?? message;
}
