import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { vi } from 'vitest';
import { runCommand } from '../../src/cli/program.js';

const checkout = fileURLToPath(new URL('../..', import.meta.url));

export type Ran = { code: number | null; out: string; err: string };

/** Runs `fuseline …` to its end, without a terminal, with these settings alone, and with `input` as its standard input. */
export async function fuseline(
  args: string[],
  env: Record<string, string> = {},
  input: string | Buffer = '',
): Promise<Ran> {
  const { PATH = '', HOME = '' } = process.env;
  const child = spawn(process.execPath, [`${checkout}dist/src/cli/main.js`, ...args], { env: { PATH, HOME, ...env } });
  let out = '';
  let err = '';
  child.stdout.on('data', (chunk) => {
    out += chunk;
  });
  child.stderr.on('data', (chunk) => {
    err += chunk;
  });
  // A command that reads no input may end before it is written.
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  const [code] = await once(child, 'close');
  return { code, out, err };
}

/**
 * The same in this process, for tests of what a command says: some fifty times faster. What concerns streams, signals and exit runs in
 * a process of its own.
 */
export async function fuselineHere(args: string[], env: Record<string, string> = {}): Promise<Ran> {
  const texts = { out: '', err: '' };
  const take = (name: 'out' | 'err') => (text: unknown) => {
    texts[name] += String(text);
    return true;
  };
  const spies = [
    vi.spyOn(process.stdout, 'write').mockImplementation(take('out')),
    vi.spyOn(process.stderr, 'write').mockImplementation(take('err')),
  ];
  for (const name of Object.keys(process.env)) if (name.startsWith('FUSELINE_')) vi.stubEnv(name, undefined);
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  try {
    const code = await runCommand(args);
    return { code, ...texts };
  } finally {
    for (const spy of spies) spy.mockRestore();
    vi.unstubAllEnvs();
  }
}
