// Finds a Redis server to run tests and the demo against, without root, and without touching anything outside this folder.
// Uses Node alone, because it runs before `npm ci`.

import { spawn } from 'node:child_process';
import { access, chmod, constants, mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const MINIMUM = 7;

const checkout = fileURLToPath(new URL('../..', import.meta.url));

/**
 * @typedef {object} RedisBinary
 * @property {string} command path of a server of version 7.0 or later; needs no environment of its own
 * @property {string} version as the server tells it, e.g. `7.0.15`
 */

/**
 * Looks at `FUSELINE_REDIS_SERVER`, then the PATH, then `.cache/redis`, which it fills from Debian's packages if it must.
 * Rejects with a message that names the command to type when none of these gives a server of 7.0 or later.
 *
 * @param {{ cacheDir?: string, log?: (line: string) => void }} [options] `log` hears of skipped servers and of a download
 * @returns {Promise<RedisBinary>}
 */
export async function findRedisServer({ cacheDir = join(checkout, '.cache'), log = toStderr } = {}) {
  const named = process.env.FUSELINE_REDIS_SERVER;
  if (named) {
    const version = await versionOf(named);
    if (version && isRecent(version)) return { command: named, version };
    throw new Error(
      `FUSELINE_REDIS_SERVER=${named} ${version ? `is version ${version}` : 'does not run'}; Redis ${MINIMUM}.0 or later is needed`,
    );
  }

  for (const command of await onPath(['redis-server', 'valkey-server'])) {
    const version = await versionOf(command);
    if (version && isRecent(version)) return { command, version };
    log(`skipping ${command}: ${version ? `version ${version} is older than ${MINIMUM}.0` : 'it does not run'}`);
  }

  const cached = join(cacheDir, 'redis', 'redis-server');
  const version = await versionOf(cached);
  if (version && isRecent(version)) return { command: cached, version };

  if (process.platform !== 'linux' || (await onPath(['apt-get', 'dpkg-deb'])).length < 2) throw new Error(advice());
  log('no Redis server found: unpacking the one of the distribution into .cache/redis (a few MB, once)');
  try {
    return await unpackFromPackages(cacheDir);
  } catch (error) {
    throw new Error(`${advice()}\n(unpacking packages did not work: ${error.message})`, { cause: error });
  }
}

/** @param {string} line */
function toStderr(line) {
  process.stderr.write(`${line}\n`);
}

function advice() {
  return [
    `A Redis server (or Valkey), version ${MINIMUM}.0 or later, is needed and none was found. Install one:`,
    '  Debian, Ubuntu   sudo apt-get install redis-server',
    '  macOS            brew install redis',
    '  Windows          wsl --install -d Debian    (then work inside it, with the first line)',
    'or name one: FUSELINE_REDIS_SERVER=/path/to/redis-server',
  ].join('\n');
}

/** @param {string} version */
function isRecent(version) {
  return Number.parseInt(version, 10) >= MINIMUM;
}

/**
 * @param {string} command
 * @returns {Promise<string | undefined>} nothing when it is not there, or is no Redis
 */
async function versionOf(command) {
  const { code, stdout } = await run(command, ['--version']).catch(() => ({ code: 1, stdout: '' }));
  return code === 0 ? /\bv=(\d+\.\d+\.\d+)/.exec(stdout)?.[1] : undefined;
}

/**
 * @param {string[]} names
 * @returns {Promise<string[]>} at most one path for each name, in the order of the names
 */
async function onPath(names) {
  const found = [];
  for (const name of names) {
    for (const folder of (process.env.PATH ?? '').split(delimiter).filter(Boolean)) {
      const path = join(folder, name);
      const usable = await access(path, constants.X_OK).then(
        () => true,
        () => false,
      );
      if (!usable) continue;
      found.push(path);
      break;
    }
  }
  return found;
}

/**
 * Works in a folder of its own and renames it at the end, so that two processes that do this at once harm nobody.
 *
 * @param {string} cacheDir
 * @returns {Promise<RedisBinary>}
 */
async function unpackFromPackages(cacheDir) {
  await mkdir(cacheDir, { recursive: true });
  const work = await mkdtemp(join(cacheDir, 'redis-unpacking-'));
  try {
    const debs = join(work, 'debs');
    const root = join(work, 'root');
    for (const folder of ['debs', 'root', 'apt/state/lists/partial', 'apt/cache/archives/partial']) {
      await mkdir(join(work, folder), { recursive: true });
    }
    // A state of our own: the machine's package lists may be empty, stale, or not ours to write. Signatures are still checked.
    const apt = [
      ['Dir::State', join(work, 'apt/state')],
      ['Dir::State::status', '/var/lib/dpkg/status'],
      ['Dir::Cache', join(work, 'apt/cache')],
      ['Debug::NoLocking', '1'],
      ['APT::Sandbox::User', 'root'],
    ].flatMap(([key, value]) => ['-o', `${key}=${value}`]);

    await must('apt-get', ['-q', ...apt, 'update']);
    const packages = ['redis-server', 'redis-tools'];
    const { stdout } = await must('apt-cache', [...apt, 'depends', ...packages]);
    for (const [, library] of stdout.matchAll(/^\s*Depends: ((?:lib|lua)[^\s<>:]+)/gm)) {
      if (!packages.includes(library) && !(await isInstalled(library))) packages.push(library);
    }
    await must('apt-get', ['-q', ...apt, 'download', ...packages], debs);
    for (const file of await readdir(debs)) await must('dpkg-deb', ['-x', join(debs, file), root]);
    for (const name of ['redis-server', 'redis-cli']) await writeLauncher(root, name);

    const made = await versionOf(join(root, 'redis-server'));
    if (!made) throw new Error('the unpacked server does not run');
    if (!isRecent(made)) throw new Error(`the distribution has version ${made}, which is older than ${MINIMUM}.0`);
    await putInPlace(root, join(cacheDir, 'redis'));
    return { command: join(cacheDir, 'redis', 'redis-server'), version: made };
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** @param {string} library */
async function isInstalled(library) {
  const { code, stdout } = await run('dpkg-query', ['-W', '-f', `\${Status}`, library]);
  return code === 0 && stdout.includes('install ok installed');
}

/**
 * The launcher brings the libraries along, so that whoever starts the server needs no environment. `exec` keeps the pid.
 *
 * @param {string} root
 * @param {string} name
 */
async function writeLauncher(root, name) {
  const script = [
    '#!/bin/sh',
    `here=$(cd "\${0%/*}" && pwd)`,
    `for lib in "$here"/usr/lib/*-linux-*; do LD_LIBRARY_PATH="$lib\${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"; done`,
    'export LD_LIBRARY_PATH',
    `exec "$here/usr/bin/${name}" "$@"`,
    '',
  ].join('\n');
  const path = join(root, name);
  await writeFile(path, script);
  await chmod(path, 0o755);
}

/**
 * @param {string} made
 * @param {string} place
 */
async function putInPlace(made, place) {
  try {
    await rename(made, place);
  } catch {
    // Somebody was faster, or an unpacked server of another machine lies there.
    if (await versionOf(join(place, 'redis-server'))) return;
    await rm(place, { recursive: true, force: true });
    await rename(made, place);
  }
}

/**
 * @param {string} command
 * @param {string[]} args
 * @param {string} [cwd]
 */
async function must(command, args, cwd) {
  const { code, stdout, stderr } = await run(command, args, cwd);
  if (code === 0) return { stdout };
  const why = stderr.trim().split('\n').slice(-3).join('; ');
  throw new Error(`${command} ${args.filter((arg) => !arg.includes('::') && arg !== '-o').join(' ')}: ${why}`);
}

/**
 * @param {string} command
 * @param {string[]} args
 * @param {string} [cwd]
 * @returns {Promise<{ code: number | null, stdout: string, stderr: string }>}
 */
function run(command, args, cwd) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, LC_ALL: 'C' },
    });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (chunk) => {
      stdout += chunk;
    });
    child.stderr.on('data', (chunk) => {
      stderr += chunk;
    });
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, stdout, stderr }));
  });
}
