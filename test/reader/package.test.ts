import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';

describe('fuseline/reader', () => {
  it('loads neither bullmq nor kafkajs', () => {
    const load = "await import('./dist/src/reader/index.js')";
    const env = { ...process.env, NODE_DEBUG: 'esm,module' };
    const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', load], {
      env,
      encoding: 'utf8',
    });
    expect(status).toBe(0);
    const packages = new Set([...stderr.matchAll(/node_modules\/([^/'"\s]+)/g)].map(([, name]) => name));
    expect(packages, 'what must be loaded, or the log shows nothing').toContain('ioredis');
    expect([...packages].filter((name) => name === 'bullmq' || name === 'kafkajs')).toEqual([]);
  });
});
