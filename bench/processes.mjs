// Real processes for the latency benchmarks: the worker roles as they run in production, and a reader.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { freePort } from '../deploy/local/redis-server.mjs';

const READY_WITHIN_MS = 20_000;
const END_WITHIN_MS = 5_000;

/** Starts `workers/<role>.ts`, resolves when it says that it is ready. @returns {Promise<() => Promise<void>>} the way to end it */
export async function startRole(role, env) {
  const port = await freePort();
  const child = fork(new URL(`../dist/workers/${role}.js`, import.meta.url), {
    env: { ...process.env, ...env, FUSELINE_HTTP_PORT: `${port}`, FUSELINE_LOG_LEVEL: 'warn' },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const end = performance.now() + READY_WITHIN_MS;
  while (!(await isReady(port))) {
    if (child.exitCode !== null) throw new Error(`the role ${role} ended with code ${child.exitCode}`);
    if (performance.now() > end) throw new Error(`the role ${role} is not ready after ${READY_WITHIN_MS} ms`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return () => endChild(child);
}

async function isReady(port) {
  return await fetch(`http://127.0.0.1:${port}/readyz`).then(
    ({ ok }) => ok,
    () => false,
  );
}

/**
 * A process that does nothing but read verdicts. `watch` resolves once it has answered that the channel is not blocked; `blocked`
 * resolves to the instant (`process.hrtime`, one clock for all processes of a machine) at which `isBlocked` first answered true there.
 */
export async function startReader(url, prefix) {
  const child = fork(new URL('./reader-process.mjs', import.meta.url), [url, prefix]);
  await once(child, 'message');
  const waiting = new Map();
  child.on('message', ({ channel, what, at }) => {
    waiting.get(`${what} ${channel}`)?.(at === undefined ? undefined : BigInt(at));
    waiting.delete(`${what} ${channel}`);
  });
  const message = (what, channel) => new Promise((resolve) => waiting.set(`${what} ${channel}`, resolve));
  return {
    async watch(channel) {
      const answered = message('watched', channel);
      child.send({ channel });
      await answered;
    },
    blocked: (channel) => message('blocked', channel),
    stop: () => endChild(child),
  };
}

async function endChild(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), END_WITHIN_MS);
  await exited;
  clearTimeout(timer);
}
