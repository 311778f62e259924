import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { findKafka } from '../../deploy/local/find-kafka.mjs';
import { checkout } from './files.js';

/** How a program of `examples/` is started; `env` is added to the surroundings. */
export type Program = { command: string; args: string[]; env: Record<string, string> };

/** Why a program cannot run here, and what would help. */
export type Missing = { missing: string };

export type Ended = { code: number | null; stdout: string; stderr: string };

/** Fetching and building goes on while tests run, and may not slow down those that measure times. */
const BESIDE_TESTS = { priority: constants.priority.PRIORITY_BELOW_NORMAL };

const cache = `${checkout}.cache/examples`;

/** Runs a command in a UTF-8 locale, without which Java reads 微信支付 as question marks. A command that does not exist ends with code 127. */
export function runToEnd(
  command: string,
  args: string[],
  env: Record<string, string> = {},
  { priority = constants.priority.PRIORITY_NORMAL }: { priority?: number } = {},
): Promise<Ended> {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd: checkout,
      env: { ...process.env, LC_ALL: 'C.UTF-8', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    if (child.pid !== undefined) setPriority(child.pid, priority);
    const said = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].setEncoding('utf8').on('data', (chunk: string) => {
        said[name] += chunk;
      });
    }
    child.once('error', (error) => resolve({ code: 127, ...said, stderr: error.message }));
    child.once('close', (code) => resolve({ code, ...said }));
  });
}

/** Kafka's client and Jackson lie beside the broker that tests run: nothing more is fetched. */
async function prepareJava(): Promise<Program | Missing> {
  try {
    const { java, classPath } = await findKafka();
    return {
      command: java,
      args: ['-XX:TieredStopAtLevel=1', '-cp', classPath, 'examples/java/Checkout.java'],
      env: {},
    };
  } catch (error) {
    return { missing: (error as Error).message };
  }
}

/** Packages from PyPI, into `.cache`, once per `requirements.txt`. */
async function preparePython(): Promise<Program | Missing> {
  if ((await runToEnd('python3', ['-m', 'pip', '--version'])).code !== 0)
    return { missing: 'python3 with pip is not installed (sudo apt-get install python3-pip)' };
  const { stdout } = await runToEnd('python3', ['--version']);
  const hash = hashOf(`${stdout}${readFileSync(`${checkout}examples/python/requirements.txt`, 'utf8')}`);
  const packages = `${cache}/python-${hash}`;
  if (!existsSync(packages)) {
    const fresh = `${packages}.${process.pid}`;
    const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-cache-dir', '--target', fresh];
    const ended = await runToEnd('python3', [...pip, '-r', 'examples/python/requirements.txt'], {}, BESIDE_TESTS);
    if (ended.code !== 0) return unreachable('PyPI', ended);
    renameSync(fresh, packages);
  }
  return { command: 'python3', args: ['examples/python/checkout.py'], env: { PYTHONPATH: packages } };
}

/** Modules from Go's proxy, into `.cache`. */
async function prepareGo(): Promise<Program | Missing> {
  if ((await runToEnd('go', ['version'])).code !== 0) return { missing: 'go is not installed (https://go.dev/dl)' };
  mkdirSync(cache, { recursive: true });
  const program = `${cache}/checkout-go`;
  const env = {
    GOMODCACHE: `${cache}/go-modules`,
    GOCACHE: `${cache}/go-build`,
    GOFLAGS: '-mod=readonly -modcacherw',
    CGO_ENABLED: '0',
  };
  // Without optimizations, C and what debuggers need, the first build takes half as long; with a warm cache, a second.
  const quick = ['-gcflags=all=-N -l -dwarf=false', '-ldflags=-s -w'];
  const build = ['-C', 'examples/go', 'build', '-buildvcs=false', ...quick, '-o', program, '.'];
  const ended = await runToEnd('go', build, env, BESIDE_TESTS);
  if (ended.code !== 0) return unreachable("Go's module proxy", ended);
  return { command: program, args: [], env: {} };
}

/** How each language's program is made ready. */
export const LANGUAGES = { Java: prepareJava, Go: prepareGo, Python: preparePython };
export type Language = keyof typeof LANGUAGES;

/** Only a registry that cannot be reached excuses: whatever else went wrong is a fault of the example. */
function unreachable(registry: string, { stdout, stderr }: Ended): Missing {
  const text = `${stdout}${stderr}`;
  const network =
    /no such host|dial tcp|Name or service not known|Temporary failure in name|Network is unreachable|Connection (?:refused|reset)|timed out|i\/o timeout|NewConnectionError/;
  if (!network.test(text)) throw new Error(text.slice(-2_000));
  return { missing: `${registry} cannot be reached: ${network.exec(text)![0]}` };
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12);
}
