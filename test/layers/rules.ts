import { dirname, join } from 'node:path/posix';

/** Sources by path from the top of the checkout, as `src/redis/keys.ts`. */
export type Sources = ReadonlyMap<string, string>;

export type Import = {
  /** As written: `./port.js`, `zod`, `node:fs`. */
  readonly specifier: string;
  /** The file meant, for a relative specifier. */
  readonly target?: string;
  /** Erased by the compiler. `import { type X }` is not: the module is still loaded. */
  readonly typeOnly: boolean;
};

/** From the bottom up. A folder may import its own files and folders that stand lower; flows may also import each other. */
const LEVELS: readonly (readonly string[])[] = [
  ['domain'],
  ['redis', 'observe', 'http'],
  ['channel', 'transport', 'alert', 'queue', 'recording'],
  [
    'settings',
    'rules',
    'announce',
    'publisher',
    'reader',
    'guard',
    'intake',
    'checker',
    'recovery',
    'replay',
    'notify',
    'process',
    'fuseline',
  ],
  ['cli', 'testing', 'index'],
  ['workers'],
];
const FLOWS = 3;

/** Who may load which package. `*`: anybody. Of those in {@link SHARED_TYPES} anybody may name the types. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  zod: ['*'],
  ioredis: ['src/redis/'],
  bullmq: ['src/queue/'],
  kafkajs: ['src/transport/kafka/'],
  'kafkajs-snappy': ['src/transport/kafka/'],
  'lz4-napi': ['src/transport/kafka/'],
  fzstd: ['src/transport/kafka/'],
  undici: ['src/alert/'],
  'ipaddr.js': ['src/alert/'],
  standardwebhooks: ['src/alert/'],
  yaml: ['src/rules/', 'src/settings/'],
  pino: ['src/observe/'],
  'prom-client': ['src/observe/'],
  commander: ['src/cli/'],
};

const SHARED_TYPES = ['ioredis', 'pino', 'prom-client'];

/** Files that only hand on what others define: the package's entries. */
const ENTRIES = ['src/index.ts', 'src/publisher/index.ts', 'src/reader/index.ts', 'src/testing/index.ts'];

const MOST_LINES = 250;
/** Longer than that, each with the reason why it stays so. Empty is best. */
const LONG: Readonly<Record<string, string>> = {};

/** Every broken rule of the tree, one sentence each. */
export function problemsOf(sources: Sources): string[] {
  const graph = new Map([...sources].map(([path, text]) => [path, importsOf(path, text)]));
  return [
    ...[...graph].flatMap(([path, imports]) => imports.flatMap((one) => importProblems(path, one, sources))),
    ...[...sources].flatMap(([path, text]) => fileProblems(path, text)),
    ...cycles(graph).map((files) => `import cycle: ${files.join(' → ')}`),
    ...cycles(folderGraph(graph)).map((folders) => `folders import each other: ${folders.join(' → ')}`),
  ];
}

const STATEMENT = /^(?:import|export)\s+(type\s)?(?:[^'"`;]*?\sfrom\s+)?'([^']+)'/gm;
const DYNAMIC = /\bimport\(\s*'([^']+)'/g;

export function importsOf(path: string, text: string): Import[] {
  const code = withoutComments(text);
  const found = [
    ...[...code.matchAll(STATEMENT)].map(([, type, specifier]) => ({ specifier: specifier!, typeOnly: !!type })),
    ...[...code.matchAll(DYNAMIC)].map(([, specifier]) => ({ specifier: specifier!, typeOnly: false })),
  ];
  return found.map(({ specifier, typeOnly }) => ({
    specifier,
    typeOnly,
    ...(specifier.startsWith('.') ? { target: join(dirname(path), specifier).replace(/\.js$/, '.ts') } : {}),
  }));
}

/** Rough, and enough here: the sources hold no string with a comment's beginning at the start of a line. */
function withoutComments(text: string): string {
  return text.replace(/^\s*\/\*[\s\S]*?\*\//gm, '').replace(/^\s*\/\/.*$/gm, '');
}

function importProblems(path: string, { specifier, target, typeOnly }: Import, sources: Sources): string[] {
  if (specifier.startsWith('node:')) return [];
  if (target !== undefined) return sources.has(target) ? layerProblems(path, target) : [`${path}: no file ${target}`];
  const name = /^(?:@[^/]+\/)?[^/]+/.exec(specifier)![0];
  if (path.startsWith('src/domain/') && name !== 'zod') return [`${path} imports ${name}: the domain imports zod only`];
  const places = PACKAGES[name];
  if (places === undefined) return [`${path} imports ${name}, which has no place in the layers yet`];
  if (typeOnly && SHARED_TYPES.includes(name)) return [];
  const allowed = places.some((place) => place === '*' || path.startsWith(place));
  return allowed ? [] : [`${path} imports ${name}: only ${places.join(', ')} may`];
}

function layerProblems(path: string, target: string): string[] {
  const [from, to] = [folderOf(path), folderOf(target)];
  if (from === to) return to === 'workers' ? [`${path} imports ${target}: nobody imports a worker`] : [];
  const [high, low] = [levelOf(from), levelOf(to)];
  if (high === -1 || low === -1) return [`${high === -1 ? from : to} has no place in the layers yet`];
  if (to === 'workers') return [`${path} imports ${target}: nobody imports a worker`];
  if (low < high || (low === high && high === FLOWS)) return [];
  return [`${path} imports ${target}: ${low === high ? 'neighbours on this level do not meet' : 'imports point down'}`];
}

function fileProblems(path: string, text: string): string[] {
  const problems: string[] = [];
  const lines = text.trimEnd().split('\n').length;
  if (lines > MOST_LINES && !(path in LONG)) problems.push(`${path} has ${lines} lines, more than ${MOST_LINES}`);
  if (lines <= MOST_LINES && path in LONG) problems.push(`${path} is short enough now: take it off the list`);
  const code = withoutComments(text).trim();
  const handsOn = /^(?:export\s+(?:type\s)?(?:\*|\{[^}]*\})\s*(?:as \w+ )?from\s+'[^']+';?\s*)+$/.test(code);
  if (handsOn && !ENTRIES.includes(path)) problems.push(`${path} only hands on: barrels are for the package's entries`);
  if (/(['"`])(?:[^'"`\n]*\/)?lua\/?\1/.test(code) && path !== 'src/redis/script.ts')
    problems.push(`${path} names the folder lua: only src/redis/script.ts reads it`);
  return problems;
}

/** `src/transport/redis-stream/x.ts` → `transport`; `src/announce.ts` → `announce`; `workers/x.ts` → `workers`. */
function folderOf(path: string): string {
  const parts = path.replace(/\.ts$/, '').split('/');
  return parts[0] === 'src' ? parts[1]! : parts[0]!;
}

function levelOf(folder: string): number {
  return LEVELS.findIndex((level) => level.includes(folder));
}

function folderGraph(graph: ReadonlyMap<string, readonly Import[]>): Map<string, Import[]> {
  const folders = new Map<string, Import[]>();
  for (const [path, imports] of graph) {
    const targets = imports.flatMap(({ target, ...rest }) => (target ? [{ ...rest, target: folderOf(target) }] : []));
    const others = targets.filter(({ target }) => target !== folderOf(path));
    folders.set(folderOf(path), [...(folders.get(folderOf(path)) ?? []), ...others]);
  }
  return folders;
}

/** Each cycle once, by depth-first search; imports of types count, because a reader has to follow them too. */
function cycles(graph: ReadonlyMap<string, readonly Import[]>): string[][] {
  const found: string[][] = [];
  const done = new Set<string>();
  const visit = (path: string, trail: readonly string[]) => {
    const at = trail.indexOf(path);
    if (at !== -1) {
      found.push([...trail.slice(at), path]);
      return;
    }
    if (done.has(path)) return;
    for (const target of new Set((graph.get(path) ?? []).map((one) => one.target)))
      if (target !== undefined) visit(target, [...trail, path]);
    done.add(path);
  };
  for (const path of graph.keys()) visit(path, []);
  return found;
}
