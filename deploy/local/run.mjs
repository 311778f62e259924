// Behind `npm run demo`, `npm test`, `npm run test:quick` and `npm run bench`: in a fresh clone each of them is one command.
// It installs packages, builds and finds a Redis server where these are missing, then runs the real thing with its arguments.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { constants } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findRedisServer } from './redis-server.mjs';

const checkout = fileURLToPath(new URL('../..', import.meta.url));
const tsc = join('node_modules', 'typescript', 'bin', 'tsc');
const vitest = join('node_modules', 'vitest', 'vitest.mjs');

/** What waits for outages to pass, for brokers, or for processes to start: left out of the quick set, which takes under a minute. */
const UNHURRIED = [
  ...['slow', 'kafka', 'process', 'support', 'cli', 'package', 'testing'].map((folder) => `test/${folder}/**`),
  ...[
    ...[
      'guard/fleet',
      'recovery/watcher',
      'transport/trouble',
      'transport/redis-stream',
      'reader/outage',
      'notify/alerts',
    ],
    ...['queue/queue', 'channel/cost', 'rules/live', 'rules/sources', 'publisher/create'],
  ].map((file) => `test/${file}.test.ts`),
];

/** The steps of each command, run in order until one fails. Tests build for themselves, in their global setup. */
const commands = {
  demo: (args) => [
    [process.execPath, tsc, '-p', 'tsconfig.json'],
    [process.execPath, 'deploy/local/demo.mjs', ...args],
  ],
  test: (args) => {
    // All tests, those of other languages among them.
    if (args.every((arg) => arg.startsWith('-'))) process.env.FUSELINE_FETCH_AHEAD = '1';
    return [
      ['npm', 'run', '--silent', 'check'],
      [process.execPath, vitest, 'run', ...args],
    ];
  },
  quick: (args) => {
    process.env.FUSELINE_PROPERTY_RUNS ??= '50';
    process.env.FUSELINE_REPLAY_RUNS ??= '500';
    return [[process.execPath, vitest, 'run', ...UNHURRIED.flatMap((files) => ['--exclude', files]), ...args]];
  },
  bench: (args) => [
    [process.execPath, tsc, '-p', 'tsconfig.json'],
    [process.execPath, 'bench/main.mjs', ...args],
  ],
};

const [what = '', ...rest] = process.argv.slice(2);
if (!Object.hasOwn(commands, what)) {
  console.error(`say what to run: ${Object.keys(commands).join(', ')}; got "${what}"`);
  process.exit(2);
}
process.exitCode = await main(commands[what](rest));

/**
 * @param {string[][]} steps
 * @returns {Promise<number>} the exit code of the first step that failed, or 0
 */
async function main(steps) {
  if (!(await packagesAreInstalled())) {
    console.log('installing packages (npm ci)');
    const code = await run(['npm', 'ci', '--no-audit', '--no-fund']);
    if (code !== 0) return code;
  }
  try {
    process.env.FUSELINE_REDIS_SERVER = (await findRedisServer()).command;
  } catch (error) {
    console.error(error.message);
    return 1;
  }
  for (const step of steps) {
    const code = await run(step);
    if (code !== 0) return code;
  }
  return 0;
}

/** Compares what npm says it installed with the lock file, because their times tell nothing in a fresh clone. */
async function packagesAreInstalled() {
  const wanted = JSON.parse(await readFile(join(checkout, 'package-lock.json'), 'utf8')).packages;
  const text = await readFile(join(checkout, 'node_modules', '.package-lock.json'), 'utf8').catch(() => undefined);
  if (text === undefined) return false;
  const installed = JSON.parse(text).packages;
  return Object.entries(wanted).every(
    ([path, { version, optional, devOptional }]) =>
      path === '' || optional || devOptional || installed[path]?.version === version,
  );
}

/**
 * @param {string[]} step
 * @returns {Promise<number>} as a shell tells it: 128 + signal for a child that a signal ended
 */
async function run([command, ...args]) {
  const child = spawn(command, args, { cwd: checkout, stdio: 'inherit' });
  // A terminal gives Ctrl-C to the whole group; a signal sent to this process alone has to be passed on.
  const passOn = (signal) => {
    if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
  };
  process.on('SIGINT', passOn);
  process.on('SIGTERM', passOn);
  try {
    const [code, signal] = await once(child, 'exit');
    return code ?? 128 + constants.signals[signal];
  } catch (error) {
    console.error(`${command}: ${error.message}`);
    return 1;
  } finally {
    process.off('SIGINT', passOn);
    process.off('SIGTERM', passOn);
  }
}
