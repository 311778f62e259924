import { readFile } from 'node:fs/promises';
import { RULES_MAX_BYTES } from '../domain/rules.js';
import type { Problem } from '../domain/rules-problems.js';
import { CliError } from './failure.js';

/** The text of a file of rules; `-` is standard input. @throws {CliError} */
export async function readText(file: string): Promise<string> {
  try {
    if (file !== '-') return await readFile(file, 'utf8');
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of process.stdin) {
      bytes += (chunk as Buffer).length;
      if (bytes > RULES_MAX_BYTES) throw new CliError(`standard input has more than ${RULES_MAX_BYTES} bytes`);
      chunks.push(chunk as Buffer);
    }
    return Buffer.concat(chunks).toString('utf8');
  } catch (error) {
    if (error instanceof CliError) throw error;
    throw new CliError(`${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? String(error)})`);
  }
}

/** A line for each problem. @throws {CliError} always */
export function refuse(what: string, problems: readonly Problem[]): never {
  const lines = problems.map(({ path, message }) => `${what}: ${path === '' ? message : `${path}: ${message}`}`);
  throw new CliError(lines.join('\n'));
}
