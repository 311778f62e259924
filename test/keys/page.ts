import { readFileSync } from 'node:fs';
import { checkout } from '../support/files.js';

/** One row of the table of keys in `docs/keys.md`. */
export type Row = {
  readonly name: string;
  readonly type: string;
  readonly expires: 'yes' | 'no' | 'sometimes';
  /** Not written by this version. */
  readonly reserved: boolean;
  /** Whole names, without a prefix. */
  readonly pattern: RegExp;
  /** Names of fields, from the section of the key; absent where the page has none. */
  readonly fields?: readonly RegExp[];
};

/** What the page says. @throws {Error} a row that cannot be read */
export function readPage(): Row[] {
  const text = readFileSync(`${checkout}docs/keys.md`, 'utf8');
  const [table = '', ...sections] = text.split(/^## /m);
  return tableRows(table).map(([key = '', type = '', expires = '', holds = '']) => {
    const name = codes(key)[0];
    if (name === undefined || !['yes', 'no', 'sometimes'].includes(expires))
      throw new Error(`not a row: ${key} ${expires}`);
    const section = sections.find((one) => one.startsWith(`\`${name}\``));
    return {
      name,
      type,
      expires: expires as Row['expires'],
      reserved: holds.includes('reserved'),
      pattern: patternOf(name),
      ...(section === undefined
        ? {}
        : { fields: tableRows(section).flatMap(([field = '']) => codes(field).map(patternOf)) }),
    };
  });
}

function tableRows(text: string): string[][] {
  const lines = text.split('\n').filter((line) => line.startsWith('| `'));
  return lines.map((line) =>
    line
      .slice(1, -1)
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim()),
  );
}

function codes(cell: string): string[] {
  return [...cell.matchAll(/`([^`]+)`/g)].map(([, code]) => code!);
}

/** `C` and `n` in braces, a capital at the end, and `…` stand for values. A list that ends in `…` goes on in the same way. */
function patternOf(name: string): RegExp {
  const literal = name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const filled = literal
    .replace('\\{C\\}', '\\{[^{}]+\\}')
    .replace('\\{n\\}', '\\{\\d+\\}')
    .replace(/:[WR]$/, ':.+')
    .replace('…', '.+')
    .replace(/^[012]$/, '\\d+');
  return new RegExp(`^${filled}$`, 'u');
}
