import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { expect, onTestFinished, test } from 'vitest';
import { sharedRedisUrl, startRedis, uniquePrefix } from './redis.js';
import { until } from './wait.js';

const finder = 'deploy/local/redis-server.mjs';

function open(url: string): Redis {
  const redis = new Redis(url);
  redis.on('error', () => {});
  onTestFinished(() => redis.disconnect());
  return redis;
}

async function temporaryDir(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'fuseline-test-'));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

test('the shared server answers, and prefixes differ', async () => {
  const key = `${uniquePrefix()}k`;
  const redis = open(sharedRedisUrl());
  await redis.set(key, 'v');
  expect(await redis.get(key)).toBe('v');
  expect(await redis.exists(`${uniquePrefix()}k`)).toBe(0);
});

test('a server of its own starts again on its port with its data', async () => {
  const dir = await temporaryDir();
  const first = await startRedis({ dir, args: ['--appendonly', 'yes'] });
  await open(first.url).set('k', 'v');
  await first.stop();
  const second = await startRedis({ dir, port: first.port, args: ['--appendonly', 'yes'] });
  expect(second.url).toBe(first.url);
  expect(await open(second.url).get('k')).toBe('v');
});

test('a frozen server can be stopped', async () => {
  const server = await startRedis();
  process.kill(server.pid, 'SIGSTOP');
  await server.stop();
  expect(() => process.kill(server.pid, 0)).toThrow('ESRCH');
});

test('a server ends with the process that started it, even when that is killed', async () => {
  const source = `
    const { startRedis } = await import('./${finder}');
    const { port } = await startRedis();
    console.log(port);
    process.kill(process.pid, 'SIGKILL');
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', source]).catch(
    (error: { stdout: string }) => error,
  );
  const redis = open(`redis://127.0.0.1:${stdout.trim()}`);
  const failure = () =>
    redis.ping().then(
      () => 'PONG',
      (error: Error) => error.message,
    );
  redis.options.maxRetriesPerRequest = 0;
  expect(await until(failure, { what: 'the server to be gone', accept: (text) => text !== 'PONG' })).toBeTruthy();
});

test('a port that is taken is told with the server’s own words', async () => {
  const server = await startRedis();
  await expect(startRedis({ port: server.port })).rejects.toThrow(/Address already in use/);
});

test('an old server is skipped with its version, and the error names the command to type', async () => {
  const dir = await temporaryDir();
  const old = join(dir, 'redis-server');
  await writeFile(old, '#!/bin/sh\necho "Redis server v=6.2.14 sha=0"\n');
  await chmod(old, 0o755);
  const source = `
    const { findRedisServer } = await import('./${finder}');
    await findRedisServer({ cacheDir: '${dir}' }).catch(({ message }) => console.log(message));
  `;
  const { stdout, stderr } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', source], {
    env: { PATH: dir },
  });
  expect(stderr).toContain('version 6.2.14 is older than 7.0');
  expect(stdout).toContain('sudo apt-get install redis-server');
});
