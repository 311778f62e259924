// Starts Redis servers for tests, the demo and benchmarks, and sees to it that none outlives whoever started it.
// `node deploy/local/redis-server.mjs` prints the server that would be used. Uses Node alone: it runs before `npm ci`.

import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { findRedisServer } from './find-redis-server.mjs';
import { guardAgainstOrphan } from './guard.mjs';

export { findRedisServer };

const START_TIMEOUT_MS = 15_000;
const STOP_TIMEOUT_MS = 3_000;

/**
 * @typedef {object} RunningRedis
 * @property {number} port on 127.0.0.1
 * @property {string} url `redis://127.0.0.1:<port>`
 * @property {number} pid of the server itself, for signals
 * @property {string} dir its working folder
 * @property {() => Promise<void>} stop ends it (SIGTERM, then SIGKILL) and removes its folder, unless the caller named that
 */

/** @type {Set<{ kill: () => void }>} */
const running = new Set();
process.on('exit', () => {
  for (const { kill } of running) kill();
});

/**
 * Starts a server that keeps nothing on disk, waits until it answers, and takes care that it ends when this process does.
 *
 * @param {object} [options]
 * @param {number} [options.port] default: a free one
 * @param {string[]} [options.args] more arguments, later ones win: `['--maxmemory', '2mb']`, `['--appendonly', 'yes']`, `['--sentinel']`
 * @param {string} [options.dir] a folder that outlives the server, for a restart with data; default: a temporary one
 * @param {string} [options.configFile] for Sentinel, which rewrites it
 * @returns {Promise<RunningRedis>}
 */
export async function startRedis({ port, args = [], dir, configFile } = {}) {
  const { command } = await findRedisServer();
  for (let attempt = 1; ; attempt += 1) {
    const chosen = port ?? (await freePort());
    try {
      return await startOnce({ command, port: chosen, args, dir, configFile });
    } catch (error) {
      // Between finding a free port and binding it somebody else may take it.
      if (port !== undefined || attempt === 5 || !/Address already in use/.test(error.message)) throw error;
    }
  }
}

/**
 * @param {{ command: string, port: number, args: string[], dir?: string, configFile?: string }} options
 * @returns {Promise<RunningRedis>}
 */
async function startOnce({ command, port, args, dir, configFile }) {
  const folder = dir ?? (await mkdtemp(join(tmpdir(), 'fuseline-redis-')));
  const base = ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder, '--daemonize', 'no'];
  const keepNothing = args.includes('--sentinel') ? [] : ['--save', '', '--appendonly', 'no'];
  const child = spawn(command, [...(configFile ? [configFile] : []), ...base, ...keepNothing, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = once(child, 'exit').catch(() => []);
  let log = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      log = `${log}${chunk}`.slice(-4_000);
    });
  }
  if (child.pid === undefined) throw new Error(`${command} does not start`);
  const pid = child.pid;
  const guard = guardAgainstOrphan(pid, dir === undefined ? folder : undefined);
  const entry = { kill: () => child.kill('SIGKILL') };
  running.add(entry);

  async function stop() {
    if (child.exitCode === null && child.signalCode === null) {
      // A server under SIGSTOP hears SIGTERM only after this. One that waits for its frozen replica runs into the deadline.
      child.kill('SIGCONT');
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
      await exited;
      clearTimeout(timer);
    }
    running.delete(entry);
    guard.kill('SIGKILL');
    if (dir === undefined) await rm(folder, { recursive: true, force: true });
  }

  try {
    await untilItAnswers({ port, pid, hasExited: () => child.exitCode !== null || child.signalCode !== null });
  } catch (error) {
    await stop();
    throw new Error(`${command} on port ${port}: ${error.message}\n${log.trim()}`, { cause: error });
  }
  return { port, url: `redis://127.0.0.1:${port}`, pid, dir: folder, stop };
}

/** @param {{ port: number, pid: number, hasExited: () => boolean }} options */
async function untilItAnswers({ port, pid, hasExited }) {
  const end = performance.now() + START_TIMEOUT_MS;
  let last = 'no answer';
  while (performance.now() < end) {
    if (hasExited()) throw new Error('it ended at once');
    last = await ask(port, 'INFO server\r\n').catch((error) => error.message);
    // The pid tells our server from one that somebody else runs on this port.
    if (last.includes(`process_id:${pid}\r\n`) || last.startsWith('-NOAUTH')) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`no answer within ${START_TIMEOUT_MS} ms, last: ${last.slice(0, 100)}`);
}

/**
 * @param {number} port
 * @param {string} line
 * @returns {Promise<string>} what came in the first 500 ms, or until the reply was whole
 */
function ask(port, line) {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1' }, () => socket.write(line));
    let reply = '';
    socket.setTimeout(500, () => socket.destroy());
    socket.on('data', (chunk) => {
      reply += chunk;
      if (!reply.startsWith('$') || reply.endsWith('\r\n\r\n') || reply.includes('process_id:')) socket.destroy();
    });
    socket.once('error', reject);
    socket.once('close', () => resolve(reply));
  });
}

/** A port on 127.0.0.1 that nobody listens on now. @returns {Promise<number>} */
export async function freePort() {
  for (;;) {
    // Below the range from which systems take the ports of outgoing connections: one of those could be taken a moment later.
    const port = randomInt(12_000, 32_000);
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  try {
    const { command, version } = await findRedisServer();
    console.log(`${command} ${version}`);
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
