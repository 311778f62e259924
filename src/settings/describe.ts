import { formatDuration } from '../domain/duration.js';
import { DEFINITIONS, type SettingName } from './definitions.js';
import type { Definition } from './kinds.js';
import type { LoadedSettings, Origin } from './load.js';

/** One line of `config show`. `value` is safe to print. */
export type SettingLine = {
  readonly name: SettingName;
  readonly value: string;
  readonly origin: Origin;
  readonly env: string;
  readonly about: string;
};

const DURATIONS = new Set<SettingName>(['freshFor', 'logClockLead', 'rewind']);

/** Every setting with its value and where that came from; secrets masked, durations with a unit, `''` for what is not set. */
export function describeSettings({ settings, origins }: LoadedSettings): SettingLine[] {
  return (Object.keys(DEFINITIONS) as SettingName[]).map((name) => {
    const { env, about, mask }: Definition<unknown> = DEFINITIONS[name];
    return { name, value: print(name, settings[name], mask), origin: origins[name], env, about };
  });
}

function print(name: SettingName, value: unknown, mask: Definition<unknown>['mask']): string {
  if (value === undefined) return '';
  if (mask !== undefined) return mask(value);
  return DURATIONS.has(name) ? formatDuration(value as number) : String(value);
}
