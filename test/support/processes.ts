import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { releaseAtEnd } from './releasers.js';

const checkout = fileURLToPath(new URL('../..', import.meta.url));

const running = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

export type Exit = { code: number | null; signal: NodeJS.Signals | null };

export type RunningProcess = {
  pid: number;
  /** Everything it said so far, on stdout and stderr, in the order of arrival. */
  lines: string[];
  /** Looks at lines already said too. Rejects when the process ends, or after `timeoutMs`, with its last lines. */
  waitForLine(pattern: RegExp, options?: { timeoutMs?: number }): Promise<string>;
  kill(signal?: NodeJS.Signals): void;
  /** Settles when it has ended and all its lines are here. */
  exited: Promise<Exit>;
};

/**
 * Runs a built script in a process of its own, as `startProcess('dist/workers/outcomes.js', [], { FUSELINE_PREFIX: … })`.
 * Settings of the surrounding shell do not reach it. It is killed when the test is over.
 *
 * @param script a path from the top of the checkout
 */
export function startProcess(script: string, args: string[] = [], env: Record<string, string> = {}): RunningProcess {
  const child = spawn(process.execPath, [script, ...args], {
    cwd: checkout,
    env: { ...cleanEnvironment(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  const listeners = new Set<() => void>();
  const notify = () => {
    for (const listener of [...listeners]) listener();
  };
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      lines.push(line);
      notify();
    });
  }

  let exit: Exit | undefined;
  const exited = new Promise<Exit>((resolve) => {
    child.once('close', (code, signal) => {
      // 'close' comes when both pipes have ended; the last line of each is emitted in the same turn or before.
      setImmediate(() => {
        exit = { code, signal };
        notify();
        resolve(exit);
      });
    });
  });
  if (child.pid === undefined) throw new Error(`${process.execPath} does not start`);

  running.add(child);
  releaseAtEnd(async () => {
    child.kill('SIGKILL');
    await exited;
    running.delete(child);
  });

  function waitForLine(pattern: RegExp, { timeoutMs = 15_000 }: { timeoutMs?: number } = {}): Promise<string> {
    return new Promise((resolve, reject) => {
      let next = 0;
      const finish = () => {
        clearTimeout(timer);
        listeners.delete(look);
      };
      const fail = (why: string) => {
        finish();
        reject(new Error(`${script} ${why} without a line like ${pattern}; it said:\n${lines.slice(-30).join('\n')}`));
      };
      const look = () => {
        for (; next < lines.length; next += 1) {
          const line = lines[next]!;
          if (line.search(pattern) === -1) continue;
          finish();
          resolve(line);
          return;
        }
        if (exit) fail(`ended (code ${exit.code}, signal ${exit.signal})`);
      };
      const timer = setTimeout(() => fail(`ran ${timeoutMs} ms`), timeoutMs);
      listeners.add(look);
      look();
    });
  }

  return { pid: child.pid, lines, waitForLine, kill: (signal = 'SIGTERM') => void child.kill(signal), exited };
}

function cleanEnvironment(): Record<string, string | undefined> {
  const foreign = ([name]: [string, unknown]) => /^(FUSELINE_|VITEST|NODE_ENV$|TEST$)/.test(name);
  return Object.fromEntries(Object.entries(process.env).filter((entry) => !foreign(entry)));
}
