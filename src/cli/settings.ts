import type { Command } from 'commander';
import { DEFINITIONS, type SettingName, type Settings } from '../settings/definitions.js';
import { type LoadedSettings, loadSettings, type SettingsSources } from '../settings/load.js';
import { note } from './output.js';

/** Adds a flag for every setting, `--redis-url <value>` for `redisUrl`; they may stand before or after the command. */
export function addSettingFlags(program: Command): void {
  program.optionsGroup(
    'Settings (flag, else environment, else fuseline.config.yaml, else default; fuseline config show prints them):',
  );
  program.option('--config <file>', 'another file than fuseline.config.yaml');
  for (const [name, { about, env }] of Object.entries(DEFINITIONS)) {
    program.option(`--${kebab(name)} <value>`, `${about} [${env}]`);
  }
}

/** Where the settings of this command come from. */
export function sourcesOf(command: Command): SettingsSources {
  const given = command.optsWithGlobals() as Record<string, unknown>;
  const names = Object.keys(DEFINITIONS) as SettingName[];
  return {
    flags: Object.fromEntries(names.filter((name) => given[name] !== undefined).map((name) => [name, given[name]])),
    ...(given.config === undefined ? {} : { configFile: String(given.config) }),
  };
}

/** The settings of this command; warnings go to standard error. @throws {SettingsError} */
export function settingsOf(command: Command): Settings {
  return loaded(command).settings;
}

/** As {@link settingsOf}, with the origin of each. @throws {SettingsError} */
export function loaded(command: Command): LoadedSettings {
  const result = loadSettings(sourcesOf(command));
  for (const warning of result.warnings) note(`fuseline: warning: ${warning}`);
  return result;
}

const kebab = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
