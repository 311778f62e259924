import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseDocument } from 'yaml';
import { show } from '../domain/channel-name.js';
import { DEFINITIONS, type SettingName, type Settings } from './definitions.js';
import { kafkaProblems } from './kafka-definitions.js';
import type { Definition } from './kinds.js';

/** The file looked for in the working directory. */
export const SETTINGS_FILE = 'fuseline.config.yaml';

/** Where a value came from; `redisUrl`: taken over from that setting. */
export type Origin = 'flag' | 'environment' | 'file' | 'default' | 'redisUrl';

export type LoadedSettings = {
  readonly settings: Settings;
  readonly origins: Readonly<Record<SettingName, Origin>>;
  /** Path of the file that was read, if there is one. */
  readonly file?: string;
  /** Sentences to log: `FUSELINE_` variables that are no settings. */
  readonly warnings: readonly string[];
};

/** One or more settings cannot be used. The message has a line for each; secrets are masked. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
  readonly problems: readonly string[];
  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

export type SettingsSources = {
  /** By setting name (`redisUrl`), as commander gives them; `undefined` counts as not given. */
  readonly flags?: Readonly<Record<string, unknown>>;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** Another file than `fuseline.config.yaml`; it must exist. */
  readonly configFile?: string;
  /** What `flags` are called where they came from, if that is no command line. */
  readonly called?: (name: string) => string;
};

/** Not a setting: where tests and the demo find their server. */
const NOT_OURS = new Set(['FUSELINE_REDIS_SERVER']);
const FILE_MOST_CHARACTERS = 65_536;
const NAMES = Object.keys(DEFINITIONS) as SettingName[];

/**
 * The static settings: flag, else environment, else file, else default. An empty variable counts as not set, as compose files pass
 * what is missing. A key of the file or a flag that we do not know is refused: a misspelt name would leave the default in force. An
 * unknown `FUSELINE_` variable is only warned about: Kubernetes puts `FUSELINE_SERVICE_HOST` and the like into every pod beside a
 * service of that name.
 *
 * @throws {SettingsError} all problems at once
 */
export function loadSettings({
  flags = {},
  env = process.env,
  cwd = process.cwd(),
  configFile,
  called = (name) => `--${kebab(name)}`,
}: SettingsSources = {}): LoadedSettings {
  const file = readFile(cwd, configFile);
  const problems = [...file.problems, ...unknownNames(flags, called, file.values, file.path)];
  const values = new Map<SettingName, unknown>();
  const origins = new Map<SettingName, Origin>();
  for (const name of NAMES) {
    const definition: Definition<unknown> = DEFINITIONS[name];
    const found = find(name, definition, flags, env, file.values);
    origins.set(name, found?.origin ?? 'default');
    if (found === undefined) {
      values.set(name, definition.fallback);
      continue;
    }
    const parsed = definition.schema.safeParse(found.value);
    if (parsed.success) values.set(name, parsed.data);
    else
      problems.push(
        explain(called(name), name, definition, found, parsed.error.issues[0]?.message ?? 'cannot be used', file.path),
      );
  }
  for (const name of ['logRedisUrl', 'queueRedisUrl'] as const) {
    if (origins.get(name) !== 'default') continue;
    values.set(name, values.get('redisUrl'));
    origins.set(name, 'redisUrl');
  }
  if (problems.length === 0) problems.push(...kafkaProblems(Object.fromEntries(values)));
  if (problems.length > 0) throw new SettingsError(problems);
  return {
    settings: Object.fromEntries(values) as Settings,
    origins: Object.fromEntries(origins) as Record<SettingName, Origin>,
    ...(file.path === undefined ? {} : { file: file.path }),
    warnings: strayVariables(env),
  };
}

type Found = { readonly value: unknown; readonly origin: Origin };

function find(
  name: SettingName,
  { env: variable }: Definition<unknown>,
  flags: Readonly<Record<string, unknown>>,
  env: Readonly<Record<string, string | undefined>>,
  file: Readonly<Record<string, unknown>>,
): Found | undefined {
  if (flags[name] !== undefined) return { value: flags[name], origin: 'flag' };
  const fromEnv = env[variable];
  if (fromEnv !== undefined && fromEnv !== '') return { value: fromEnv, origin: 'environment' };
  if (Object.hasOwn(file, name)) return { value: file[name], origin: 'file' };
  return undefined;
}

function explain(
  flag: string,
  name: SettingName,
  { env, mask }: Definition<unknown>,
  found: Found,
  rule: string,
  file = SETTINGS_FILE,
): string {
  const places = { flag, environment: env, file: `${name} in ${file}` };
  const place = places[found.origin as keyof typeof places] ?? name;
  // Rules of Redis URLs show the URL themselves, masked.
  return mask === undefined ? `${place}: ${rule}, got ${show(found.value)}` : `${place}: ${rule}`;
}

type File = {
  readonly path?: string;
  readonly values: Readonly<Record<string, unknown>>;
  readonly problems: readonly string[];
};

function readFile(cwd: string, configFile: string | undefined): File {
  const path = configFile ?? join(cwd, SETTINGS_FILE);
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' && configFile === undefined) return { values: {}, problems: [] };
    return { path, values: {}, problems: [`${path} cannot be read (${code})`] };
  }
  if (text.length > FILE_MOST_CHARACTERS)
    return { path, values: {}, problems: [`${path} has more than ${FILE_MOST_CHARACTERS} characters`] };
  const document = parseDocument(text, { prettyErrors: false, stringKeys: true, logLevel: 'error' });
  if (document.errors.length > 0)
    return {
      path,
      values: {},
      problems: [`${path} is not YAML (${document.errors[0]?.code.toLowerCase().replaceAll('_', ' ')})`],
    };
  const values: unknown = document.toJS() ?? {};
  if (typeof values !== 'object' || Array.isArray(values))
    return { path, values: {}, problems: [`${path} must be a mapping of settings`] };
  return { path, values: values as Record<string, unknown>, problems: [] };
}

function unknownNames(
  flags: Readonly<Record<string, unknown>>,
  called: (name: string) => string,
  file: Readonly<Record<string, unknown>>,
  path = SETTINGS_FILE,
): string[] {
  const isUnknown = (name: string) => !Object.hasOwn(DEFINITIONS, name);
  return [
    ...Object.keys(flags)
      .filter(isUnknown)
      .map((name) => `${called(name)} is not a setting`),
    ...Object.keys(file)
      .filter(isUnknown)
      .map((name) => `${show(name)} in ${path} is not a setting${hint(name, NAMES)}`),
  ];
}

function strayVariables(env: Readonly<Record<string, string | undefined>>): string[] {
  const known: string[] = NAMES.map((name) => DEFINITIONS[name].env);
  return Object.keys(env)
    .filter((name) => name.startsWith('FUSELINE_') && !known.includes(name) && !NOT_OURS.has(name))
    .map((name) => `${name} is not a setting of this version${hint(name, known)}; it is ignored`);
}

/** The setting that has the same letters, when only case or separators differ. */
function hint(name: string, names: readonly string[]): string {
  const near = names.find((other) => withoutSeparators(other) === withoutSeparators(name));
  return near === undefined ? '' : ` (is ${near} meant?)`;
}

const withoutSeparators = (name: string) => name.replaceAll(/[_-]/g, '').toLowerCase();
const kebab = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
