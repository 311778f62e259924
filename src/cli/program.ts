import { Command, CommanderError } from 'commander';
import { SettingsError } from '../settings/load.js';
import { addAudit } from './audit.js';
import { addByHand } from './by-hand.js';
import { addConfig } from './config.js';
import { CliError, reasonOf } from './failure.js';
import { addGroups } from './groups.js';
import { addKafka } from './kafka.js';
import { addLoad } from './load.js';
import { note } from './output.js';
import { addPublish } from './publish.js';
import { addReplay } from './replay.js';
import { addRules } from './rules.js';
import { addSettingFlags } from './settings.js';
import { addStart } from './start.js';
import { addStatus } from './status.js';
import { ownVersion } from './version.js';

/**
 * Runs one command line (without node and script) and resolves to its exit code: 0 done, 1 failed, 2 the command line or the settings
 * are wrong and nothing was tried. `start` never comes back: it ends the process itself.
 */
export async function runCommand(args: readonly string[]): Promise<number> {
  try {
    await buildProgram().parseAsync(args, { from: 'user' });
    return 0;
  } catch (error) {
    return explain(error);
  }
}

function buildProgram(): Command {
  const program = new Command('fuseline')
    .description('Tells a whole fleet which third-party channels are failing, keeps them out, and brings them back.')
    .version(ownVersion(), '--version', 'print the version')
    .helpOption('-h, --help', 'print this, or behind a command its own help')
    .helpCommand('help [command]', 'print the help of a command')
    .showSuggestionAfterError()
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'fuseline: ')) })
    .exitOverride();
  addSettingFlags(program);
  addStart(program);
  addStatus(program);
  addGroups(program);
  addByHand(program);
  addLoad(program);
  addAudit(program);
  addPublish(program);
  addRules(program);
  addReplay(program);
  addConfig(program);
  addKafka(program);
  program.addHelpText('afterAll', ({ command }) =>
    command === program ? '' : '\nThe settings are taken here too, such as --redis-url: fuseline --help lists them.',
  );
  program.addHelpText(
    'after',
    `
Examples:
  fuseline start                                  all roles in one process
  fuseline start outcomes                         one role; run as many of them as needed
  fuseline status                                 what is blocked, until when and why
  fuseline block ALIPAY --for 2h --reason "maintenance"
  fuseline unblock ALIPAY
  fuseline rules init && fuseline rules set rules.yaml

Exit codes: 0 done, 1 failed, 2 wrong command line or settings.`,
  );
  return program;
}

/** One line for each thing that is wrong, for the person who typed the command. */
function explain(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  if (error instanceof SettingsError) {
    for (const problem of error.problems) note(`fuseline: ${problem}`);
    return 2;
  }
  if (error instanceof CliError) {
    for (const line of error.message.split('\n')) note(`fuseline: ${line}`);
    return error.exitCode;
  }
  note(`fuseline: ${reasonOf(error)}`);
  if (process.env.NODE_DEBUG?.includes('fuseline')) note(String((error as Error).stack));
  return 1;
}
