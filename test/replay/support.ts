import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { releaseAtEnd } from '../support/releasers.js';

/** A moment at which the past of these tests begins. */
export const START = Date.UTC(2026, 10, 1, 12);

export type Line = { channel?: string; success?: boolean; after?: number; [field: string]: unknown };

/** Lines of a recording: each `after` ms from the beginning, with a position of its own. */
export function linesOf(lines: readonly Line[]): string[] {
  return lines.map(({ channel = 'C', success = false, after = 0, ...rest }, i) => {
    const arrivalMs = START + after;
    return JSON.stringify({
      arrivalMs,
      partition: 'log/0/1',
      position: `${arrivalMs}-${i}`,
      channel,
      success,
      ...rest,
    });
  });
}

/** So many failures in a row, a second between. */
export function failures(channel: string, from: number, times: number): Line[] {
  return Array.from({ length: times }, (_, i) => ({
    channel,
    success: false,
    after: from + i * 1_000,
    code: 'TIMEOUT',
  }));
}

/** A folder of the test's own; `put` writes a file into it and gives its path. */
export async function folder() {
  const path = await mkdtemp(join(tmpdir(), 'fuseline-replay-'));
  releaseAtEnd(() => rm(path, { recursive: true, force: true }));
  return {
    path,
    async put(name: string, content: string | Buffer | readonly string[] | object): Promise<string> {
      const file = join(path, name);
      const text = Array.isArray(content) ? `${content.join('\n')}\n` : content;
      await writeFile(file, typeof text === 'string' || Buffer.isBuffer(text) ? text : JSON.stringify(text));
      return file;
    },
  };
}
