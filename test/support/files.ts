import { existsSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The top of the checkout. */
export const checkout = fileURLToPath(new URL('../..', import.meta.url));

/** Files below a folder whose names end so, sorted; paths from the top of the checkout, with forward slashes. */
export function filesUnder(folder: string, ending: string): string[] {
  if (!existsSync(`${checkout}${folder}`)) return [];
  return readdirSync(`${checkout}${folder}`, { recursive: true, encoding: 'utf8' })
    .map((path) => `${folder}/${path.replaceAll('\\', '/')}`)
    .filter((path) => path.endsWith(ending))
    .sort();
}
