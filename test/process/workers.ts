import { randomBytes } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RunningProcess, startProcess } from '../support/processes.js';
import { releaseAtEnd } from '../support/releasers.js';
import { until } from '../support/wait.js';

/** No promise of ours: a dozen processes that start at once, beside other work, take turns on two cores. */
const READY_WITHIN_MS = 60_000;

export type Role = 'outcomes' | 'recovery' | 'alerts';

/** A worker in a process of its own, and where its pages are. */
export type Worker = RunningProcess & { url(): Promise<string> };

/** Settings of one test, as a deployment would give them: environment alone. */
export type Env = Record<string, string>;

export function startWorker(role: Role, env: Env): Worker {
  return withUrl(startProcess(`dist/workers/${role}.js`, [], { FUSELINE_HTTP_PORT: '0', ...env }));
}

/** `fuseline start …`: several roles in one process. */
export function startRoles(roles: readonly string[], env: Env): Worker {
  return withUrl(startProcess('dist/src/cli/main.js', ['start', ...roles], { FUSELINE_HTTP_PORT: '0', ...env }));
}

function withUrl(started: RunningProcess): Worker {
  const url = async () =>
    JSON.parse(await started.waitForLine(/health and metrics are served/, { timeoutMs: READY_WITHIN_MS }))
      .url as string;
  return { ...started, url };
}

export type Answer = { status: number; body: string };

export async function get(worker: Worker, path: string): Promise<Answer> {
  return answerOf(`${await worker.url()}${path}`);
}

async function answerOf(url: string): Promise<Answer> {
  const response = await fetch(url);
  return { status: response.status, body: await response.text() };
}

export async function untilReady(worker: Worker): Promise<Answer> {
  const url = await worker.url();
  return until(() => answerOf(`${url}/readyz`), {
    what: 'the worker to be ready',
    accept: ({ status }) => status === 200,
    timeoutMs: READY_WITHIN_MS,
  });
}

/** A file of rules for one test. JSON is YAML. */
export async function rulesFile(document: object): Promise<string> {
  const path = join(tmpdir(), `fuseline-rules-${randomBytes(6).toString('hex')}.yaml`);
  await writeFile(path, JSON.stringify(document));
  releaseAtEnd(() => rm(path, { force: true }));
  return path;
}

/** The value of a line of `/metrics`; 0 when it is not there. */
export async function metric(worker: Worker, line: string): Promise<number> {
  const { body } = await get(worker, '/metrics');
  const found = body.split('\n').find((one) => one.startsWith(`${line} `));
  return found === undefined ? 0 : Number(found.slice(line.length + 1));
}
