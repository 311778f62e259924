import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { checkout, filesUnder } from './support/files.js';

type Case = { id: string; says: string; files: string[]; where: string };

function readPage(): Case[] {
  const text = readFileSync(`${checkout}test/CASES.md`, 'utf8');
  return text
    .split('\n')
    .filter((line) => /^\| \d/.test(line))
    .map((line) => {
      const [id = '', says = '', where = ''] = line
        .split('|')
        .map((cell) => cell.trim())
        .slice(1);
      const files = [...where.matchAll(/`([\w/.-]+\.ts)`/g)].map(([, path]) => path!);
      return { id, says, files, where };
    });
}

/** Ids at the beginning of the names of tests: `it('1.02 …'`, `it.each(…)('7.10 7.11 …'`. */
function idsIn(source: string): string[] {
  const names = source.matchAll(/\(\s*(['"`])((?:\d\.\d{2}[ ,]+)+)/g);
  return [...names].flatMap(([, , ids]) => ids!.match(/\d\.\d{2}/g)!);
}

function idsInTests(): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const path of filesUnder('test', '.ts')) {
    const name = path.slice('test/'.length);
    if (name === 'cases.test.ts') continue;
    for (const id of new Set(idsIn(readFileSync(checkout + path, 'utf8'))))
      found.set(id, [...(found.get(id) ?? []), name]);
  }
  return found;
}

describe('test/CASES.md', () => {
  const page = readPage();
  const found = idsInTests();

  it('has each case once, with a sentence, and a test or the reason why there is none', () => {
    expect(page.length).toBeGreaterThan(60);
    expect(new Set(page.map(({ id }) => id)).size).toBe(page.length);
    for (const { id, says, files, where } of page) {
      expect(says.length, `the sentence of ${id}`).toBeGreaterThan(20);
      if (files.length === 0) expect(where.length, `the reason why nothing proves ${id}`).toBeGreaterThan(20);
    }
  });

  it('names for each case exactly the files that hold a test of it', () => {
    const wrong = page.flatMap(({ id, files, where }) => {
      const wanted = (found.get(id) ?? []).sort();
      if (wanted.join() === [...files].sort().join()) return [];
      return [
        `| ${id} | … | ${wanted.length > 0 ? wanted.map((name) => `\`${name}\``).join(', ') : `a reason, not: ${where}`} |`,
      ];
    });
    expect(wrong, 'rows of test/CASES.md as the tests have them').toEqual([]);
  });

  it('has a row for every id that begins the name of a test', () => {
    const ids = page.map(({ id }) => id);
    const missing = [...found].filter(([id]) => !ids.includes(id)).map(([id, files]) => `${id}: ${files.join(', ')}`);
    expect(missing, 'ids without a row').toEqual([]);
  });

  it('finds ids in names of tests, and nowhere else', () => {
    const [quote, id] = ["'", '1.02'];
    expect(idsIn(`it(${quote}${id} says so${quote}, …`)).toEqual(['1.02']);
    expect(idsIn(`])(\n  ${quote}${id} 7.11 %s says so${quote}, …`)).toEqual(['1.02', '7.11']);
    expect(idsIn(`it(${quote}says ${id} so${quote}, …`)).toEqual([]);
  });
});
