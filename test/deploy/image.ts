import { cpSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parse } from 'yaml';
import { checkout } from '../support/files.js';

export type Service = {
  readonly image: string;
  readonly command: string | readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly healthcheck: { readonly test: readonly string[] };
  readonly stop_grace_period?: string;
  readonly profiles?: readonly string[];
};

/** `docker-compose.yml`, its anchors resolved, as it is where nobody has set a variable that it asks for. */
export function readCompose(): { services: Readonly<Record<string, Service>> } {
  const text = readFileSync(`${checkout}docker-compose.yml`, 'utf8');
  return parse(text.replace(/\$\{\w+:-([^}]*)\}/g, '$1'), { merge: true });
}

export type Copy = { readonly from: readonly string[]; readonly to: string; readonly stage?: string };

/** The stages of `deploy/Dockerfile`, each with its instructions as written and what it copies. */
export function readDockerfile() {
  const text = readFileSync(`${checkout}deploy/Dockerfile`, 'utf8');
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  const stages: { name: string; lines: string[]; copies: Copy[] }[] = [];
  for (const line of lines) {
    const from = /^FROM \S+(?: AS (\S+))?$/.exec(line);
    if (from) stages.push({ name: from[1] ?? '', lines: [], copies: [] });
    stages.at(-1)!.lines.push(line);
    const copy = /^COPY (?:--from=(\S+) )?(.+) (\S+)$/.exec(line);
    if (copy) stages.at(-1)!.copies.push({ stage: copy[1]!, from: copy[2]!.split(' '), to: copy[3]! });
  }
  return stages;
}

/** A folder that holds what the image holds under `/app`, by the Dockerfile's last stage; `node_modules` is the checkout's. */
export function layOutImage(): string {
  const folder = mkdtempSync(join(tmpdir(), 'fuseline-image-'));
  for (const { from, to } of readDockerfile().at(-1)!.copies) {
    for (const path of from) {
      const name = path.replace(/^\/app\//, '');
      const target = join(folder, to === './' ? name : to);
      mkdirSync(dirname(target), { recursive: true });
      if (name === 'node_modules') symlinkSync(join(checkout, name), target, 'dir');
      else cpSync(join(checkout, name), target, { recursive: true });
    }
  }
  return folder;
}
