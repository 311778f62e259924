import { loadSettings, SettingsError, type SettingsSources } from '../settings/load.js';
import type { RoleName } from './role-names.js';
import { runProcess } from './run.js';

/** Runs roles with the settings of this process's surroundings until it is told to end; then exits. Exit code 2: bad settings. */
export async function main(roles: readonly RoleName[], sources: SettingsSources = {}): Promise<never> {
  try {
    process.exit(await runProcess(roles, loadSettings(sources)));
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    for (const problem of error.problems) process.stderr.write(`fuseline: ${problem}\n`);
    process.exit(2);
  }
}
