import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { filesUnder } from '../support/files.js';
import { importsOf, problemsOf } from './rules.js';

const tree = new Map(
  [...filesUnder('src', '.ts'), ...filesUnder('workers', '.ts')].map((path) => [path, readFileSync(path, 'utf8')]),
);

/** The problems of a tree that has these files alone. */
function problems(files: Record<string, string>): string[] {
  return problemsOf(new Map(Object.entries(files)));
}

describe('layers', () => {
  it('imports point down, packages stay where they belong, nothing goes in circles, no file is too long', () => {
    expect(tree.size).toBeGreaterThan(80);
    expect(problemsOf(tree)).toEqual([]);
  });

  it('sees every way of importing', () => {
    const text = [
      "import { z } from 'zod';",
      "import type { Redis } from 'ioredis';",
      "import {\n  type A,\n  b,\n} from './b.js';",
      "import './side-effect.js';",
      "export { c } from '../c.js';",
      "const late = await import('bullmq');",
      "// import { no } from 'comment';",
      " * import { no } from 'comment';",
    ].join('\n');
    expect(importsOf('src/reader/a.ts', text).map(({ specifier, typeOnly }) => [specifier, typeOnly])).toEqual([
      ['zod', false],
      ['ioredis', true],
      ['./b.js', false],
      ['./side-effect.js', false],
      ['../c.js', false],
      ['bullmq', false],
    ]);
  });

  const broken: [rule: string, files: Record<string, string>, problem: RegExp][] = [
    ['the domain imports zod only', { 'src/domain/a.ts': "import { Redis } from 'ioredis';" }, /zod only/],
    [
      'ioredis is loaded in src/redis only',
      { 'src/reader/a.ts': "import { Redis } from 'ioredis';" },
      /only src\/redis/,
    ],
    ['an inline type still loads', { 'src/reader/a.ts': "import { type Redis } from 'ioredis';" }, /only src\/redis/],
    [
      'bullmq stays in src/queue',
      { 'src/notify/a.ts': "const { Queue } = await import('bullmq');" },
      /only src\/queue/,
    ],
    ['a new package needs a place', { 'src/notify/a.ts': "import _ from 'lodash';" }, /no place/],
    [
      'mechanisms do not meet',
      { 'src/queue/a.ts': "import { b } from '../channel/b.js';", 'src/channel/b.ts': '' },
      /neighbours/,
    ],
    [
      'a mechanism knows no flow',
      { 'src/channel/a.ts': "import type { b } from '../reader/b.js';", 'src/reader/b.ts': '' },
      /point down/,
    ],
    ['nobody imports a worker', { 'src/cli/a.ts': "import '../../workers/b.js';", 'workers/b.ts': '' }, /worker/],
    ['nor does another worker', { 'workers/a.ts': "import './b.js';", 'workers/b.ts': '' }, /nobody imports a worker/],
    ['a file that is not there', { 'src/cli/a.ts': "import './b.js';" }, /no file src\/cli\/b\.ts/],
    [
      'no import cycles',
      { 'src/cli/a.ts': "import './b.js';", 'src/cli/b.ts': "import type { A } from './a.js';" },
      /cycle: src\/cli\/a\.ts → src\/cli\/b\.ts → src\/cli\/a\.ts/,
    ],
    [
      'no cycles between folders',
      {
        'src/reader/a.ts': "import '../intake/b.js';",
        'src/intake/b.ts': '',
        'src/intake/c.ts': "import '../reader/d.js';",
        'src/reader/d.ts': '',
      },
      /reader → intake → reader/,
    ],
    [
      'a folder needs a place',
      { 'src/new/a.ts': "import '../domain/b.js';", 'src/domain/b.ts': '' },
      /new has no place/,
    ],
    ['no barrel', { 'src/cli/index.ts': "export { b } from './b.js';", 'src/cli/b.ts': '' }, /barrels/],
    ['lua has one reader', { 'src/channel/a.ts': "readFileSync(join(top, 'lua', name));" }, /names the folder lua/],
    ['at most 250 lines', { 'src/cli/a.ts': 'const a = 1;\n'.repeat(251) }, /251 lines/],
  ];
  it.each(broken)('refuses a tree in which this rule is broken: %s', (_rule, files, problem) => {
    expect(problems(files).join('\n')).toMatch(problem);
  });

  it('finds nothing wrong with a tree that keeps the rules', () => {
    const files = {
      'src/domain/a.ts': "import { z } from 'zod';",
      'src/channel/b.ts': "import type { Redis } from 'ioredis';\nimport { a } from '../domain/a.js';",
      'src/reader/c.ts': "import { b } from '../channel/b.js';\nimport { d } from '../rules/d.js';",
      'src/rules/d.ts': "import { parse } from 'yaml';",
      'src/reader/index.ts': "export { c } from './c.js';",
      'workers/e.ts': "import { c } from '../src/reader/c.js';",
    };
    expect(problems(files)).toEqual([]);
  });
});
