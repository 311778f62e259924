import type { PastEntry } from './past.js';

type Cursor = { readonly chunks: AsyncIterator<readonly PastEntry[]>; chunk: readonly PastEntry[]; at: number };

const CHUNK = 1_000;

/**
 * Several sources as one, by arrival; of the same arrival the first source goes first. Each keeps its own order, also where its times go
 * back (the lines of a worker that reads two partitions). Holds one chunk of each.
 */
export async function* mergeByArrival(
  sources: readonly AsyncIterable<readonly PastEntry[]>[],
): AsyncGenerator<readonly PastEntry[]> {
  if (sources.length === 1) return yield* sources[0]!;
  const cursors: Cursor[] = [];
  try {
    const begun = sources.map((source) => ({ chunks: source[Symbol.asyncIterator](), chunk: [], at: 0 }));
    cursors.push(...begun);
    const filled = await Promise.all(begun.map(fill));
    let live = begun.filter((_, i) => filled[i]);
    let merged: PastEntry[] = [];
    while (live.length > 0) {
      const [first, until] = next(live);
      while (first.at < first.chunk.length && first.chunk[first.at]!.arrivalMs <= until) {
        merged.push(first.chunk[first.at]!);
        first.at += 1;
      }
      if (first.at === first.chunk.length && !(await fill(first))) live = live.filter((one) => one !== first);
      if (merged.length < CHUNK) continue;
      yield merged;
      merged = [];
    }
    if (merged.length > 0) yield merged;
  } finally {
    await Promise.all(cursors.map(({ chunks }) => chunks.return?.()));
  }
}

async function fill(cursor: Cursor): Promise<boolean> {
  for (;;) {
    const { done, value } = await cursor.chunks.next();
    if (done) return false;
    if (value.length === 0) continue;
    cursor.chunk = value;
    cursor.at = 0;
    return true;
  }
}

/** Whose turn it is, and up to which arrival, that of the next one's head, included if the next one comes later in the list. */
function next(live: readonly Cursor[]): [first: Cursor, until: number] {
  let first = live[0]!;
  let second = Number.POSITIVE_INFINITY;
  for (const one of live.slice(1)) {
    const arrival = headOf(one);
    if (arrival < headOf(first)) {
      second = headOf(first) - 1;
      first = one;
    } else second = Math.min(second, arrival);
  }
  return [first, Math.max(second, headOf(first))];
}

const headOf = ({ chunk, at }: Cursor) => chunk[at]!.arrivalMs;
