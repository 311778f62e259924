import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startProcess } from './processes.js';

let dir: string;
let script: string;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'fuseline-test-'));
  script = join(dir, 'child.mjs');
  const source = `
    process.on('SIGTERM', () => { console.log('stopping'); process.exit(3); });
    console.log('env', process.env.FUSELINE_PREFIX, process.env.FUSELINE_OF_THE_SHELL);
    console.error('arg', process.argv[2]);
    if (process.argv[2] === 'stay') setInterval(() => {}, 1000);
  `;
  await writeFile(script, source);
});

afterAll(() => rm(dir, { recursive: true, force: true }));

test('lines of both outputs are heard, and settings of the shell do not reach the process', async () => {
  process.env.FUSELINE_OF_THE_SHELL = 'leaked';
  const child = startProcess(script, ['stay'], { FUSELINE_PREFIX: 'p:' });
  expect(await child.waitForLine(/^env/)).toBe('env p: undefined');
  expect(await child.waitForLine(/^arg/)).toBe('arg stay');
  child.kill();
  expect(await child.exited).toEqual({ code: 3, signal: null });
  expect(child.lines).toContain('stopping');
});

test('waiting for a line of a process that has ended fails with what it said', async () => {
  const child = startProcess(script, ['leave']);
  await expect(child.waitForLine(/never said/)).rejects.toThrow(/ended \(code 0, .*\) without a line(.|\n)*arg leave/);
});

test('waiting for a line has a deadline', async () => {
  const child = startProcess(script, ['stay']);
  await expect(child.waitForLine(/never said/, { timeoutMs: 50 })).rejects.toThrow(/ran 50 ms without a line/);
});

let left: number;

test('a process may be left running …', async () => {
  const child = startProcess(script, ['stay']);
  await child.waitForLine(/^arg/);
  left = child.pid;
  expect(isAlive(left)).toBe(true);
});

test('… and is gone when the test is over', () => {
  expect(isAlive(left)).toBe(false);
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
