import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../deploy/local/redis-server.mjs';
import { parseRules } from '../../src/rules/parse.js';
import { sharedKafka } from '../support/kafka.js';
import { type RunningProcess, startProcess } from '../support/processes.js';
import { type RedisServer, startRedis } from '../support/redis.js';
import { until } from '../support/wait.js';

type Block = { language: string; code: string };
const run = promisify(execFile);
const english = await readFile('README.md', 'utf8');
const chinese = await readFile('README.zh-CN.md', 'utf8');
const blocks = blocksOf(english);
const README_URL = 'redis://127.0.0.1:6379';
const README_BROKERS = '127.0.0.1:9092';
/** What the examples take for granted of the reader's own program. */
const READERS_OWN = "const order = { id: 1 }; const payWithAlipay = async () => ({ code: 'OK' });\n";
/** Examples do not end by themselves, as services do not. */
const ENDING = '\nsetTimeout(() => process.exit(0), 300);\n';

function blocksOf(text: string): Block[] {
  return [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language, code]) => ({
    language: language!,
    code: code!,
  }));
}

function headingsOf(text: string): string[] {
  return [...text.replaceAll(/^```[\s\S]*?^```$/gm, '').matchAll(/^(#+) /gm)].map(([, marks]) => marks!);
}

/** The words of a shell line, quotes taken off. */
function wordsOf(line: string): string[] {
  return [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain!);
}

describe('README', () => {
  let server: RedisServer;
  let client: Redis;
  let folder: string;
  let workers: RunningProcess;
  let env: Record<string, string>;

  beforeAll(async () => {
    server = await startRedis();
    client = new Redis(server.url);
    folder = await mkdtemp(join(tmpdir(), 'fuseline-readme-'));
    await mkdir(join(folder, 'node_modules'));
    await symlink(process.cwd(), join(folder, 'node_modules', 'fuseline'));
    env = {
      FUSELINE_REDIS_URL: server.url,
      FUSELINE_HTTP_PORT: String(await freePort()),
      DEMO_WEBHOOK_URL: 'https://alerts.example/',
    };
    workers = startProcess('dist/src/cli/main.js', ['start'], env);
    await until(async () => (await fetch(`http://127.0.0.1:${env.FUSELINE_HTTP_PORT}/readyz`)).ok, {
      what: 'the workers to be ready',
      timeoutMs: 20_000,
    });
  }, 60_000);
  afterAll(async () => {
    workers.kill('SIGTERM');
    await workers.exited;
    await client.quit();
    await rm(folder, { recursive: true });
  });

  const fuseline = (words: string[]) =>
    run(process.execPath, ['dist/src/cli/main.js', ...words], { env: { ...process.env, ...env } });

  it('has a Chinese twin with the same headings, tables and code', () => {
    expect(blocksOf(chinese)).toEqual(blocks);
    expect(headingsOf(chinese)).toEqual(headingsOf(english));
    const rows = (text: string) => text.split('\n').filter((line) => line.startsWith('|')).length;
    expect(rows(chinese)).toBe(rows(english));
  });

  it('names only files that exist', async () => {
    for (const text of [english, chinese]) {
      const links = [...text.matchAll(/\]\(([^):]+)\)/g)].map(([, path]) => path!);
      const names = [...text.matchAll(/`((?:src|lua|test|docs|bench|examples|deploy)\/[\w./-]+\.\w+)`/g)].map(
        ([, path]) => path!,
      );
      for (const path of [...links, ...names]) await expect(readFile(path), path).resolves.toBeDefined();
    }
  });

  const scripts = blocks.filter(({ language }) => language === 'ts');
  it.each(scripts.map(({ code }, i) => [i + 1, code] as const))(
    'example %i in TypeScript runs as it stands',
    async (i, code) => {
      const file = join(folder, `example-${i}.mjs`);
      await writeFile(file, READERS_OWN + code.replaceAll(README_URL, server.url) + ENDING);
      const { stderr } = await run(process.execPath, [file], { timeout: 20_000 });
      expect(stderr).toBe('');
      if (code.includes('createFakeFuseline')) {
        const { stdout } = await run(process.execPath, [file]);
        expect(stdout).toBe("true\nfalse [ 'blocked', 'recovered' ]\n");
      }
    },
  );

  it('its examples in TypeScript pass a strict compiler', async () => {
    const declared = `declare const order: { id: number };
declare function payWithAlipay(order: unknown, signal?: AbortSignal): Promise<{ code: string }>;\n`;
    const files = scripts.map((_, i) => join(folder, `typed-${i + 1}.mts`));
    for (const [i, { code }] of scripts.entries()) await writeFile(files[i]!, declared + code);
    const types = ['--types', 'node', '--typeRoots', join(process.cwd(), 'node_modules', '@types')];
    const strict = [
      '--ignoreConfig',
      '--noEmit',
      '--skipLibCheck',
      '--strict',
      '--module',
      'nodenext',
      '--target',
      'es2022',
      ...types,
      ...files,
    ];
    const compiler = join('node_modules', 'typescript', 'bin', 'tsc');
    const { stdout } = await run(process.execPath, [compiler, ...strict]).catch(({ stdout }) => ({ stdout }));
    expect(stdout).toBe('');
  }, 30_000);

  it('the rules in it are valid, and judged as they say', () => {
    for (const { code } of blocks.filter(({ language }) => language === 'yaml')) {
      const parsed = parseRules(code);
      if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems));
      expect(parsed.warnings).toEqual([]);
      expect(parsed.rules.policyFor('sms-aliyun').successRate).toBe(8_000);
    }
    expect(parseRules('{"switchMode":"on","windowSize":10,"successRate":70,"blockMinutes":30}').ok).toBe(true);
  });

  const lines = blocks.filter(({ language }) => language === 'sh').flatMap(({ code }) => code.trim().split('\n'));
  it.each(lines.map((line) => [line]))(
    'the command `%s` works',
    async (line) => {
      const [program, ...words] = wordsOf(line);
      if (program === 'redis-cli') {
        const reply = await client.call(words[0]!, ...words.slice(1));
        expect(reply).not.toBeInstanceOf(Error);
        if (words[0] === 'XADD') {
          // Judged by the running workers: it is read, and nothing is in the dead letters.
          await until(async () => String(await client.xinfo('GROUPS', words[1]!)).includes(`lag,0`), {
            what: 'the entry to be read',
          });
          expect(await client.exists('fuseline:dead')).toBe(0);
        }
      } else if (line === 'npx fuseline start') {
        expect(workers.lines.join('\n')).not.toMatch(/"level":(50|60)/);
      } else if (program === 'npx') {
        expect(words.shift()).toBe('fuseline');
        const at = words.indexOf(README_BROKERS);
        if (at >= 0) words[at] = await sharedKafka();
        const { stdout } = await fuseline(words);
        expect(stdout).not.toBe('');
      } else if (line.startsWith('npm run demo')) {
        const { stdout } = await run('npm', ['run', '--silent', ...words.slice(1)], { timeout: 110_000 });
        expect(stdout).toContain('all of it was checked');
      } else {
        // The command that runs this test, and the one that needs a registry: package.json knows both.
        const { name, scripts } = JSON.parse(await readFile('package.json', 'utf8'));
        expect(['npm test', `npm install ${name}`]).toContain(line);
        expect(scripts.test).toBeDefined();
      }
    },
    120_000,
  );
});
