import { writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import type { Problem } from '../domain/rules-problems.js';
import { Keys } from '../redis/keys.js';
import { maskSecrets, type RulesChange } from '../rules/diff.js';
import { parseRules, printRules } from '../rules/parse.js';
import {
  getRules,
  type RulesStore,
  rollbackRules,
  rulesHistory,
  type SetRulesResult,
  setRules,
} from '../rules/store.js';
import { defaultActor, textArgument, wholeArgument } from './arguments.js';
import { CliError } from './failure.js';
import { bold, localTime, note, plain, print, printJson, table } from './output.js';
import { answered, withConnections } from './redis.js';
import { addExplain } from './rules-explain.js';
import { readText, refuse } from './rules-file.js';
import { leftBlocked } from './rules-left-blocked.js';
import { rulesTemplate } from './rules-template.js';
import { settingsOf } from './settings.js';

type SetFlags = { expectVersion?: string; actor?: string; confirmEmpty?: boolean };

/** `fuseline rules …` */
export function addRules(program: Command): void {
  const rules = program
    .command('rules')
    .summary('write, check and change the rules')
    .description(
      'The rules live in Redis and change in every process within a second. No file is needed after they were set.',
    );

  rules
    .command('init')
    .summary('write a file of rules to begin with')
    .argument('[file]', 'where to; an existing file is left alone', 'rules.yaml')
    .action(async (file: string) => {
      await writeNew(file, rulesTemplate);
      print(`wrote ${file}; next: fuseline rules check ${file}, then fuseline rules set ${file}`);
    });

  rules
    .command('check')
    .summary('check a file without setting it; Redis is not asked')
    .argument('<file>', 'YAML or JSON; - for standard input')
    .action(async (file: string) => {
      const parsed = parseRules(await readText(file));
      if (!parsed.ok) refuse(file, parsed.problems);
      warn(file, parsed.warnings);
      const { document } = parsed.rules;
      const many = (what: object | undefined, one: string) => `${Object.keys(what ?? {}).length} ${one}`;
      print(
        `${file} is valid: ${many(document.channels, 'channels')}, ${many(document.receivers, 'receivers')}, ${many(document.routes, 'routes')}`,
      );
    });

  rules
    .command('get')
    .summary('print the rules in force')
    .option('--json', 'with version, actor and time')
    .option('--show-secrets', 'print URLs and secrets of receivers as they are')
    .action(async ({ json, showSecrets }: { json?: boolean; showSecrets?: boolean }, command: Command) => {
      const stored = await withStore(command, (store) => answered(getRules(store), 'the rules'));
      if (stored === undefined)
        throw new CliError(
          'there are no rules: every channel is only observed, and blocked by hand alone (see fuseline rules init)',
        );
      if (stored.unreadable !== undefined) refuse('the stored document', stored.unreadable);
      const document = showSecrets ? stored.document : maskSecrets(stored.document);
      const { version, actor, at } = stored;
      if (json) return printJson({ version, actor: actor ?? null, at: at ?? null, rules: document });
      note(`version ${version}, set by ${plain(actor ?? 'a foreign hand')}${at ? ` at ${plain(at)}` : ''}`);
      if (JSON.stringify(document) !== JSON.stringify(stored.document))
        note('secrets are masked: this text cannot be set again (--show-secrets prints them)');
      print(printRules(document));
    });

  rules
    .command('set')
    .summary('put a file into force, everywhere within a second')
    .description(
      'Checks the whole document and puts it into force. Nothing happens if one item is wrong, or if somebody else changed the rules meanwhile.',
    )
    .argument('<file>', 'YAML or JSON; - for standard input')
    .option('--expect-version <n>', 'refuse unless this version is in force (0: none); default: the one found now')
    .option('--confirm-empty', 'allow a document without rules, which switches every block off')
    .option('--actor <name>', 'who; default: user@host')
    .action(async (file: string, flags: SetFlags, command: Command) => {
      const document = await readText(file);
      refuseMasked(file, document);
      await change(command, flags, file, (store, request) => setRules(store, { ...request, document }));
    });

  rules
    .command('history')
    .summary('the last versions, who set them and when')
    .option('--json', 'with the documents, secrets masked')
    .action(async ({ json }: { json?: boolean }, command: Command) => {
      const entries = await withStore(command, (store) => answered(rulesHistory(store), 'the history of the rules'));
      if (json)
        return printJson(
          entries.map(({ version, actor, at, current, document }) => ({
            version,
            actor,
            at,
            current,
            rules: maskSecrets(document),
          })),
        );
      if (entries.length === 0) return print('there are no rules, and there were none');
      const rows = entries.map(({ version, actor, at, current }) => [
        String(version),
        at ? localTime(Date.parse(at)) : '',
        actor ?? 'a foreign hand',
        current ? 'in force' : '',
      ]);
      print(table(['VERSION', 'SET AT', 'BY', ''], rows));
    });

  rules
    .command('rollback')
    .summary('put an earlier version into force again, as a new version')
    .argument('<version>', 'as fuseline rules history tells it')
    .option('--expect-version <n>', 'refuse unless this version is in force; default: the one found now')
    .option('--confirm-empty', 'allow a version without rules, which switches every block off')
    .option('--actor <name>', 'who; default: user@host')
    .action(async (version: string, flags: SetFlags, command: Command) => {
      const toVersion = wholeArgument('<version>', version);
      await change(command, flags, `version ${toVersion}`, (store, request) =>
        rollbackRules(store, { ...request, toVersion }),
      );
    });

  addExplain(rules);
}

type Request = { expectedVersion: number; actor: string; confirmEmpty: boolean };

async function change(
  command: Command,
  { expectVersion, actor, confirmEmpty = false }: SetFlags,
  what: string,
  put: (store: RulesStore, request: Request) => Promise<SetRulesResult>,
): Promise<void> {
  const by = actor === undefined ? defaultActor() : textArgument('--actor', actor);
  const expected = expectVersion === undefined ? undefined : wholeArgument('--expect-version', expectVersion);
  const { result, left } = await withStore(command, async (store) => {
    const expectedVersion = expected ?? (await answered(getRules(store), 'the rules'))?.version ?? 0;
    const done = answered(put(store, { expectedVersion, actor: by, confirmEmpty }), 'the change of the rules');
    return { result: await done, left: await leftBlocked(store) };
  });
  if (result.ok) {
    warn(what, result.warnings);
    if (!result.changed) return print(`version ${result.version} says the same already: nothing changed`);
    for (const line of result.diff) print(showChange(line));
    print(`version ${result.version} is in force`);
    for (const channel of left)
      note(
        `warning: ${plain(channel)} is in mode off and still has its block key: programs that ask EXISTS keep out until it ends, or fuseline unblock ${plain(channel)}`,
      );
    return;
  }
  switch (result.reason) {
    case 'invalid':
      return refuse(what, result.problems);
    case 'conflict':
      throw new CliError(
        `nothing was changed: version ${result.version} is in force${result.actor ? `, set by ${plain(result.actor)}` : ''}, not the expected one; look at it and try again`,
      );
    case 'empty':
      throw new CliError(
        `nothing was changed: ${what} has no rules, which would switch every block off; --confirm-empty allows it`,
      );
    case 'unknown-version':
      throw new CliError(`nothing was changed: ${what} is not in the history (see fuseline rules history)`);
  }
}

function withStore<T>(command: Command, act: (store: RulesStore) => Promise<T>): Promise<T> {
  const { redisUrl, prefix } = settingsOf(command);
  return withConnections(async ({ open }) => act({ client: await open(redisUrl, 'commands'), keys: new Keys(prefix) }));
}

function showChange({ path, before, after }: RulesChange): string {
  const show = (value: unknown) => (value === undefined ? 'nothing' : plain(JSON.stringify(value)));
  return `${bold(plain(path) || 'rules')}: ${show(before)} -> ${show(after)}`;
}

function warn(what: string, warnings: readonly Problem[]): void {
  for (const { path, message } of warnings) note(`warning: ${what}: ${path === '' ? message : `${path}: ${message}`}`);
}

/** `rules get` masks secrets; setting its text again would replace each secret by its mask. @throws {CliError} */
function refuseMasked(file: string, text: string): void {
  const parsed = parseRules(text);
  if (!parsed.ok) return;
  for (const { name, url, secret } of parsed.rules.receivers) {
    if (url.endsWith('***') || secret === '***')
      throw new CliError(
        `${file}: receivers.${name} holds a masked secret (***): nothing was changed; write the secret, or a reference such as env:NAME`,
      );
  }
}

async function writeNew(file: string, text: string): Promise<void> {
  try {
    await writeFile(file, text, { flag: 'wx' });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new CliError(
      code === 'EEXIST' ? `${file} exists already: it is left as it is` : `${file} cannot be written (${code})`,
    );
  }
}
