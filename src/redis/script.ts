import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { RedisClient } from './client.js';

/** One file of `lua/`, its includes resolved. Sent once per server, then called by its SHA-1. */
export type Script = { readonly name: string; readonly source: string; readonly sha: string };

/** What Redis hands back from our scripts: integers, strings and flat lists of both. */
export type ScriptReply = number | string | (number | string)[];

let folder: string | undefined;

/**
 * Names `lua/<name>.lua`, and reads it when it is first used: importing this package reads no file. A line `-- include <file>` is
 * replaced by that file, because Redis scripts have no `require`; one move lives in one file and is shared by every script that
 * takes it.
 */
export function loadScript(name: string): Script {
  let source: string | undefined;
  let sha: string | undefined;
  return {
    name,
    get source() {
      source ??= resolveIncludes(`${name}.lua`);
      return source;
    },
    get sha() {
      sha ??= createHash('sha1').update(this.source).digest('hex');
      return sha;
    },
  };
}

/**
 * Runs a script: by SHA, with its source where the server does not know it (restart, `SCRIPT FLUSH`, failover: the script cache is
 * not replicated). The first key chooses the node of a cluster.
 *
 * @throws what Redis answers; codes such as `READONLY` and `OOM` are contained in the message
 */
export async function runScript(
  client: RedisClient,
  script: Script,
  keys: readonly string[],
  args: readonly (string | number)[],
): Promise<ScriptReply> {
  try {
    return (await client.evalsha(script.sha, keys.length, ...keys, ...args)) as ScriptReply;
  } catch (error) {
    if (!(error instanceof Error) || !error.message.includes('NOSCRIPT')) throw withoutCommand(error);
  }
  try {
    return (await client.eval(script.source, keys.length, ...keys, ...args)) as ScriptReply;
  } catch (error) {
    throw withoutCommand(error);
  }
}

/** ioredis hangs the whole command on an error: a script's source and a batch of outcomes, in every line that logs it. */
function withoutCommand(error: unknown): unknown {
  if (error instanceof Error) delete (error as { command?: unknown }).command;
  return error;
}

function resolveIncludes(file: string): string {
  folder ??= findFolder();
  const text = readFileSync(join(folder, file), 'utf8');
  return text.replace(/^-- include (\S+)$/gm, (_line, included: string) => resolveIncludes(included));
}

/** `lua/` lies beside `package.json`, whether we run from `src` or from `dist`. */
function findFolder(): string {
  for (let at = dirname(fileURLToPath(import.meta.url)); ; at = dirname(at)) {
    const candidate = join(at, 'lua');
    if (existsSync(join(candidate, 'record.lua'))) return candidate;
    if (at === dirname(at)) throw new Error('the folder lua/ is missing from this installation of fuseline');
  }
}
