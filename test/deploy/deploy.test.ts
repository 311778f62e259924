import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { DEFINITIONS } from '../../src/settings/definitions.js';
import { checkout } from '../support/files.js';
import { readCompose, readDockerfile } from './image.js';

const WORKERS = ['outcomes', 'recovery', 'alerts'];

describe('deploy', () => {
  const { services } = readCompose();
  const stages = readDockerfile();

  it('copies into the image only what is in the repository and not kept out of the build', () => {
    const sources = stages.flatMap(({ copies }) =>
      copies.filter(({ stage }) => stage === undefined).flatMap(({ from }) => from),
    );
    const tracked = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
      cwd: checkout,
      encoding: 'utf8',
    });
    const paths = tracked.split('\n');
    const unknown = sources.filter((path) => !paths.some((one) => one === path || one.startsWith(`${path}/`)));
    expect(unknown).toEqual([]);
    const ignore = readFileSync(`${checkout}.dockerignore`, 'utf8').split('\n');
    expect(ignore).toContain('*');
    expect(sources.filter((path) => !ignore.includes(`!${path}`))).toEqual([]);
  });

  it('takes from the build stage only what that stage has made or been given', () => {
    const [build, image] = stages;
    const made = ['node_modules', 'dist', ...build!.copies.flatMap(({ from }) => from)].map((path) => `/app/${path}`);
    const taken = image!.copies.filter(({ stage }) => stage === build!.name).flatMap(({ from }) => from);
    expect(taken.length).toBeGreaterThan(0);
    expect(taken.filter((path) => !made.includes(path))).toEqual([]);
  });

  it('runs as a user without rights, on the oldest Node that the package supports', () => {
    const { engines } = JSON.parse(readFileSync(`${checkout}package.json`, 'utf8'));
    const major = /(\d+)\./.exec(engines.node)![1];
    for (const { lines } of stages) expect(lines[0]).toMatch(new RegExp(`^FROM node:${major}-slim`));
    const last = stages.at(-1)!.lines;
    expect(last).toContain('USER node');
    expect(last.slice(last.indexOf('USER node')).filter((line) => /^(RUN|COPY|USER root)/.test(line))).toEqual([]);
  });

  it('starts every role, in the version of the package, with settings that exist', () => {
    const { version } = JSON.parse(readFileSync(`${checkout}package.json`, 'utf8'));
    expect(Object.keys(services)).toEqual(['redis', ...WORKERS, 'kafka']);
    const known: string[] = Object.values(DEFINITIONS).map(({ env }) => env);
    for (const name of WORKERS) {
      const { image, command, environment, stop_grace_period } = services[name]!;
      expect(image).toBe(`fuseline:${version}`);
      expect(command).toEqual(['node', `dist/workers/${name}.js`]);
      expect(existsSync(`${checkout}workers/${name}.ts`)).toBe(true);
      expect(Object.keys(environment ?? {}).filter((one) => !known.includes(one))).toEqual([]);
      expect(Number.parseInt(stop_grace_period ?? '10', 10), 'longer than a worker takes to end').toBeGreaterThan(30);
    }
  });

  it('starts Kafka only when asked, in the version that tests run on, where workers and services find it', () => {
    const { image, profiles, environment = {} } = services.kafka!;
    expect(image).toBe(
      `apache/kafka:${/const KAFKA = '(.*)'/.exec(readFileSync(`${checkout}deploy/local/find-kafka.mjs`, 'utf8'))![1]}`,
    );
    expect(profiles).toEqual(['kafka']);
    for (const name of WORKERS) {
      const { FUSELINE_KAFKA_BROKERS, FUSELINE_TRANSPORT } = services[name]!.environment!;
      expect(environment.KAFKA_ADVERTISED_LISTENERS!.split(',')).toContain(`NETWORK://${FUSELINE_KAFKA_BROKERS}`);
      expect(FUSELINE_TRANSPORT).toBe('redis-stream');
    }
  });
});
