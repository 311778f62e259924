import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const module = fileURLToPath(new URL('../../dist/src/redis/client.js', import.meta.url));

it('leaves the methods of texts as fast as they were before ioredis was loaded', async () => {
  // Asks V8 itself: a stopwatch would tell more about the machine.
  const script = `await import(${JSON.stringify(module)}); console.log(%HasFastProperties(String.prototype))`;
  const args = ['--allow-natives-syntax', '--input-type=module', '-e', script];
  expect((await promisify(execFile)(process.execPath, args)).stdout).toBe('true\n');
}, 20_000);
