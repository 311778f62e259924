import { readFileSync } from 'node:fs';

/** A reference that leads nowhere. The message names the reference, never what was found. */
export class UnresolvedReference extends Error {
  override readonly name = 'UnresolvedReference';
}

const FILE_MOST_BYTES = 65_536;

/**
 * The value behind `env:NAME` or `file:/absolute/path` (its text without the line end that editors add); anything else is a literal
 * and comes back as it is. For the process that delivers, alone: jobs, logs and rules carry the reference.
 *
 * @throws {UnresolvedReference} variable not set or empty, file missing, unreadable, empty or over 64 KiB
 */
export function resolveReference(
  reference: string,
  env: Readonly<Record<string, string | undefined>> = process.env,
): string {
  if (reference.startsWith('env:')) return fromEnvironment(reference.slice(4), env);
  if (reference.startsWith('file:')) return fromFile(reference.slice(5));
  return reference;
}

function fromEnvironment(name: string, env: Readonly<Record<string, string | undefined>>): string {
  const value = env[name];
  if (value === undefined)
    throw new UnresolvedReference(`env:${name} leads nowhere: the variable ${name} is not set in this process`);
  if (value.trim() === '') throw new UnresolvedReference(`env:${name} leads nowhere: the variable ${name} is empty`);
  return value.trim();
}

function fromFile(path: string): string {
  if (!path.startsWith('/')) throw new UnresolvedReference(`file:${path} leads nowhere: the path must be absolute`);
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error';
    throw new UnresolvedReference(`file:${path} leads nowhere: it cannot be read (${code})`, { cause: error });
  }
  if (text.length > FILE_MOST_BYTES)
    throw new UnresolvedReference(`file:${path} has more than ${FILE_MOST_BYTES} characters: not a secret`);
  if (text.trim() === '') throw new UnresolvedReference(`file:${path} leads nowhere: the file is empty`);
  return text.trim();
}
