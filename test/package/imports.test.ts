import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { checkout, filesUnder } from '../support/files.js';

function run(code: string, env: Record<string, string> = {}) {
  return spawnSync(process.execPath, ['--input-type=module', '-e', code], {
    cwd: checkout,
    env: { ...process.env, ...env },
    encoding: 'utf8',
    maxBuffer: 64 * 1_048_576,
    timeout: 60_000,
  });
}

/** The packages that an entry loads, as ES modules or CommonJS, by Node's own log. */
function packagesOf(entry: string): string[] {
  const { status, stderr } = run(`await import('./dist/src/${entry}')`, { NODE_DEBUG: 'esm,module' });
  expect(status, stderr.slice(-1_000)).toBe(0);
  return [...new Set([...stderr.matchAll(/node_modules\/((?:@[^/'"\s]+\/)?[^/'"\s]+)/g)].map(([, name]) => name!))];
}

describe('imports', { timeout: 90_000 }, () => {
  it.each(['publisher', 'reader'])('fuseline/%s loads ioredis and neither bullmq nor kafkajs nor undici', (entry) => {
    const packages = packagesOf(`${entry}/index.js`);
    expect(packages, 'what must be loaded, or the log shows nothing').toContain('ioredis');
    expect(packages.filter((name) => ['bullmq', 'kafkajs', 'undici', 'pino', 'yaml'].includes(name))).toEqual([]);
  });

  it('fuseline/testing loads neither ioredis nor bullmq', () => {
    const packages = packagesOf('testing/index.js');
    expect(packages, 'what must be loaded, or the log shows nothing').toContain('zod');
    expect(packages.filter((name) => ['ioredis', 'bullmq'].includes(name))).toEqual([]);
  });

  it('sees a package that is loaded, so that the tests above can fail', () => {
    expect(packagesOf('queue/queue.js')).toContain('bullmq');
  });

  it('importing any module does no work: no timer, no socket, no file, no listener on the process, no word', () => {
    // Only what has a source still: dist may hold what was compiled before a file moved.
    const modules = filesUnder('src', '.ts')
      .filter((path) => path !== 'src/cli/main.ts')
      .map((path) => `./dist/${path.replace(/\.ts$/, '.js')}`)
      .filter((path) => existsSync(checkout + path));
    expect(modules.length).toBeGreaterThan(80);
    const code = `
      import fs from 'node:fs';
      import { syncBuiltinESMExports } from 'node:module';
      const { readFileSync } = fs;
      fs.readFileSync = (path, ...rest) => {
        if (!/\\.[cm]?js(on)?$/.test(String(path))) console.log('reads', path);
        return readFileSync(path, ...rest);
      };
      syncBuiltinESMExports();
      // What the loader of modules itself is at: reading files, and the pipes to this test.
      const loader = /^(TTYWrap|PipeWrap|CloseReq|FSReqPromise|FSReqCallback|FileHandle)/;
      const resources = () => process.getActiveResourcesInfo().filter((kind) => !loader.test(kind));
      const listeners = () => process.eventNames().map((name) => name + ' ' + process.listenerCount(name)).join();
      const before = listeners();
      for (const path of ${JSON.stringify(modules)}) {
        await import(path);
        if (resources().length > 0) console.log(path, 'left', resources());
        if (listeners() !== before) console.log(path, 'listens', listeners());
      }
      console.log('all loaded');`;
    const { stdout, stderr, status } = run(code);
    expect({ stdout, stderr, status }).toEqual({ stdout: 'all loaded\n', stderr: '', status: 0 });
  });
});
