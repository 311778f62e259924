import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Packed, pack } from '../package/project.js';
import { checkout } from '../support/files.js';
import { sharedRedisUrl, uniquePrefix } from '../support/redis.js';

let packed: Packed;
beforeAll(() => {
  packed = pack();
});
afterAll(() => packed?.remove());

function bin(name: string): string {
  return join(checkout, 'node_modules', '.bin', name);
}

/** Runs a program to its end; what it said. Fails the test, with all of that, unless it ends with 0. */
function run(command: string, args: string[], cwd: string, env: Record<string, string> = {}): string {
  const { status, stdout, stderr } = spawnSync(command, args, {
    cwd,
    encoding: 'utf8',
    env: { ...process.env, ...env },
  });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${status}:\n${stdout}\n${stderr}`);
  return stdout + stderr;
}

/** A service in TypeScript that uses every entry; `isBlocked('B')` must not compile, because the channels are named. */
const SERVICE = `
import { createFuseline, type Fuseline, type Transition } from 'fuseline';
import { createPublisher, didNotThrow } from 'fuseline/publisher';
import { createReader } from 'fuseline/reader';
import { createFakeFuseline } from 'fuseline/testing';

type Channel = 'ALIPAY' | 'WECHAT';

export async function main(url: string, prefix: string): Promise<void> {
  const publisher = createPublisher<Channel>({ url, prefix, source: 'checkout' });
  const answer: number = await publisher.track('ALIPAY', async () => 42, { success: didNotThrow });
  const sent: boolean = await publisher.flush();
  const { dropped, sent: count } = publisher.counts();
  await publisher.close();

  const reader = createReader<Channel>({ url, prefix });
  await reader.ready;
  const shown: { route: Channel }[] = reader.visible([{ route: 'ALIPAY' }], { by: 'route' });
  await reader.close();

  const fuse: Fuseline<Channel> = await createFuseline<Channel>({ url, prefix });
  fuse.on('transition', ({ channel, kind }: Transition) => console.log(channel, kind));
  // @ts-expect-error this channel is not in the list
  fuse.isBlocked('B');
  // @ts-expect-error what counts as success has to be said
  void (() => fuse.track('ALIPAY', async () => 1, {}));
  await fuse.close();

  const fake = createFakeFuseline<Channel>();
  for (let i = 0; i < 4; i++) fake.publish({ channel: 'WECHAT', success: false });
  console.log(JSON.stringify({ answer, sent, count, dropped, shown, fake: fake.isBlocked('WECHAT') }));
}
void main(process.argv[2]!, process.argv[3]!);
`;

const COMPILER = {
  compilerOptions: { module: 'nodenext', target: 'es2023', strict: true, outDir: 'out', rootDir: '.', types: ['node'] },
  files: ['service.ts'],
};

describe('the package', { timeout: 120_000 }, () => {
  it('is clean for publint', () => {
    run(bin('publint'), ['run', packed.folder, '--pack', 'false', '--strict'], checkout);
  });

  // The profile leaves out what an ESM-only package cannot have: TypeScript's "node10" resolution, which knows no exports, and a CommonJS
  // twin. CommonJS projects use it all the same, as a test below shows.
  it('has types that resolve from ES modules and bundlers, as attw sees it', () => {
    const said = run(bin('attw'), ['--profile', 'esm-only', '--no-emoji', packed.tarball], checkout);
    expect(said).toContain('"fuseline/publisher"');
  });

  it('holds the compiled code with its types, the scripts of Redis, the schemas and the pages, and no sources or tests', () => {
    const wanted = [
      'dist/src/index.js',
      'dist/src/index.d.ts',
      'dist/src/cli/main.js',
      'dist/workers/outcomes.js',
      'lua/record.lua',
      'lua/lib/move.lua',
      'docs/rules.schema.json',
      'docs/webhook.schema.json',
      'docs/keys.md',
      'docs/kafka.md',
      'docs/asyncapi.yaml',
      'README.md',
      'README.zh-CN.md',
      'CHANGELOG.md',
      'LICENSE',
      'package.json',
    ];
    expect(wanted.filter((path) => !packed.files.includes(path))).toEqual([]);
    const strange = packed.files.filter(
      (path) => !/^(dist\/(src|workers)\/|lua\/|docs\/|[A-Z]|package\.json)/.test(path),
    );
    expect(strange).toEqual([]);
    expect(packed.files.filter((path) => path.endsWith('.ts') && !path.endsWith('.d.ts'))).toEqual([]);
  });

  it('tells its version by the command it installs', () => {
    const { bin: bins, version } = JSON.parse(readFileSync(join(packed.folder, 'package.json'), 'utf8'));
    const folder = packed.project('command', {}, {});
    const command = join(folder, 'node_modules', 'fuseline', bins.fuseline);
    expect(readFileSync(command, 'utf8')).toMatch(/^#!\/usr\/bin\/env node\n/);
    expect(run(process.execPath, [command, '--version'], folder).trim()).toBe(version);
  });

  for (const [kind, packageJson] of [
    ['an ES module project', { type: 'module' }],
    ['a CommonJS project', { type: 'commonjs' }],
  ] as const) {
    it(`compiles and runs in ${kind} that has nothing else`, () => {
      const folder = packed.project(packageJson.type, packageJson, {
        'service.ts': SERVICE,
        'tsconfig.json': JSON.stringify(COMPILER),
      });
      run(bin('tsc'), ['-p', folder], folder);
      const compiled = readFileSync(join(folder, 'out', 'service.js'), 'utf8');
      expect(compiled).toMatch(
        packageJson.type === 'commonjs' ? /require\("fuseline\/reader"\)/ : /from 'fuseline\/reader'/,
      );
      const said = run(process.execPath, ['out/service.js', sharedRedisUrl(), uniquePrefix()], folder);
      expect(JSON.parse(said)).toEqual({
        answer: 42,
        sent: true,
        count: 1,
        dropped: { invalid: 0, 'buffer-full': 0, closed: 0, shutdown: 0 },
        shown: [{ route: 'ALIPAY' }],
        fake: true,
      });
    });
  }

  it('is loaded by a plain CommonJS script through import() and, without a warning, through require()', () => {
    const script = `
      const { createFakeFuseline } = require('fuseline/testing');
      const { Keys } = require('fuseline');
      import('fuseline').then((late) => console.log(typeof createFakeFuseline, late.Keys === Keys));
    `;
    const folder = packed.project('script', {}, { 'script.js': script });
    expect(run(process.execPath, ['script.js'], folder)).toBe('function true\n');
  });

  it('gives out its schemas, and nothing that is not an entry', () => {
    const folder = packed.project('entries', {}, {});
    const load = (specifier: string) =>
      execFileSync(process.execPath, ['-p', `require.resolve(${JSON.stringify(specifier)})`], {
        cwd: folder,
        stdio: 'pipe',
        encoding: 'utf8',
      });
    expect(load('fuseline/rules.schema.json')).toContain('docs');
    expect(load('fuseline/webhook.schema.json')).toContain('docs');
    expect(load('fuseline/package.json')).toContain('package.json');
    expect(() => load('fuseline/dist/src/redis/keys.js')).toThrow(/not defined by "exports"/);
  });
});
