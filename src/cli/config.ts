import type { Command } from 'commander';
import { describeSettings } from '../settings/describe.js';
import { print, printJson, table } from './output.js';
import { loaded } from './settings.js';

/** `fuseline config show` */
export function addConfig(program: Command): void {
  program
    .command('config')
    .summary('show the settings in force and where each comes from')
    .command('show')
    .summary('every setting: value, origin, variable; secrets masked')
    .description(
      'Shows every setting with its value, where that comes from, and the variable that sets it. Secrets are masked.',
    )
    .option('--json', 'for programs')
    .action(({ json }: { json?: boolean }, command: Command) => {
      const result = loaded(command);
      const lines = describeSettings(result);
      if (json) return printJson({ ...(result.file === undefined ? {} : { file: result.file }), settings: lines });
      if (result.file !== undefined) print(`file ${result.file}\n`);
      print(
        table(
          ['SETTING', 'VALUE', 'ORIGIN', 'VARIABLE', 'ABOUT'],
          lines.map(({ name, value, origin, env, about }) => [name, value, origin, env, about]),
        ),
      );
    });
}
