import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createFuseline } from '../../src/fuseline.js';
import { describeSettings } from '../../src/settings/describe.js';
import { loadSettings, SettingsError, type SettingsSources } from '../../src/settings/load.js';

let cwd = '';
beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), 'fuseline-settings-'));
});
afterEach(() => rmSync(cwd, { recursive: true }));

const load = (sources: SettingsSources = {}) => loadSettings({ env: {}, cwd, ...sources });
const write = (text: string) => writeFileSync(join(cwd, 'fuseline.config.yaml'), text);

function problemsOf(sources: SettingsSources): readonly string[] {
  try {
    load(sources);
  } catch (error) {
    if (error instanceof SettingsError) return error.problems;
    throw error;
  }
  throw new Error('nothing was refused');
}

describe('static settings', () => {
  it('take the documented defaults when nobody says anything', () => {
    const { settings, origins, warnings } = load();
    expect(settings).toMatchObject({
      redisUrl: 'redis://127.0.0.1:6379',
      logRedisUrl: 'redis://127.0.0.1:6379',
      queueRedisUrl: 'redis://127.0.0.1:6379',
      prefix: '',
      transport: 'redis-stream',
      kafkaTopic: 'fuseline.outcomes',
      kafkaGroup: 'fuseline',
      httpPort: 9464,
      httpHost: '127.0.0.1',
      logLevel: 'info',
      freshFor: 300_000,
      logClockLead: 0,
      shards: 4,
      maxChannels: 10_000,
      rewind: 30_000,
      streamMaxLen: 1_000_000,
      readMaxEntries: 2_000,
      allowPrivateReceivers: false,
      recordFileMaxBytes: 268_435_456,
      recordFiles: 4,
    });
    expect(settings.rules).toBeUndefined();
    expect(origins.httpPort).toBe('default');
    expect(origins.logRedisUrl).toBe('redisUrl');
    expect(warnings).toEqual([]);
  });

  it('are taken from the flag before the environment before the file, and remember from where', () => {
    write('httpPort: 1\nshards: 2\nmaxChannels: 3\n');
    const { settings, origins } = load({
      flags: { httpPort: '10', logLevel: undefined },
      env: { FUSELINE_HTTP_PORT: '11', FUSELINE_SHARDS: '12', FUSELINE_LOG_LEVEL: 'debug' },
    });
    expect(settings).toMatchObject({ httpPort: 10, shards: 12, maxChannels: 3, logLevel: 'debug' });
    expect(origins).toMatchObject({
      httpPort: 'flag',
      shards: 'environment',
      maxChannels: 'file',
      logLevel: 'environment',
    });
  });

  it('let log and queue live elsewhere, and follow redisUrl otherwise', () => {
    const { settings, origins } = load({
      env: { FUSELINE_REDIS_URL: 'redis://a:1', FUSELINE_QUEUE_REDIS_URL: 'redis://b:2' },
    });
    expect(settings).toMatchObject({
      redisUrl: 'redis://a:1',
      logRedisUrl: 'redis://a:1',
      queueRedisUrl: 'redis://b:2',
    });
    expect(origins).toMatchObject({ logRedisUrl: 'redisUrl', queueRedisUrl: 'environment' });
  });

  it('read an empty variable as not set, as compose files pass what is missing', () => {
    write('prefix: from-file');
    expect(load({ env: { FUSELINE_PREFIX: '', FUSELINE_RULES: '' } }).settings).toMatchObject({ prefix: 'from-file' });
  });

  it.each([
    [{ FUSELINE_HTTP_PORT: '80a' }, 'FUSELINE_HTTP_PORT: must be a whole number from 0 to 65535, got "80a"'],
    [{ FUSELINE_HTTP_PORT: '65536' }, 'FUSELINE_HTTP_PORT: must be a whole number from 0 to 65535, got "65536"'],
    [{ FUSELINE_SHARDS: '0' }, 'FUSELINE_SHARDS: must be a whole number from 1 to 256, got "0"'],
    [
      { FUSELINE_FRESH_FOR: '300' },
      'FUSELINE_FRESH_FOR: must be a duration from 1s to 24h, such as 1500ms, 30s or 5m, got "300"',
    ],
    [
      { FUSELINE_LOG_LEVEL: 'loud' },
      'FUSELINE_LOG_LEVEL: must be trace, debug, info, warn, error, fatal or silent, got "loud"',
    ],
    [{ FUSELINE_PREFIX: 'a{b}' }, 'FUSELINE_PREFIX: must not hold "{", "}" or white space, got "a{b}"'],
    [{ FUSELINE_ALLOW_PRIVATE_RECEIVERS: 'yes' }, 'FUSELINE_ALLOW_PRIVATE_RECEIVERS: must be true or false, got "yes"'],
    [{ FUSELINE_TRANSPORT: 'kafka' }, 'FUSELINE_KAFKA_BROKERS: must be set when the transport is kafka'],
    [{ FUSELINE_TRANSPORT: 'nats' }, 'FUSELINE_TRANSPORT: must be redis-stream or kafka, got "nats"'],
  ])('refuse %o with place, rule and value', (env, message) => {
    expect(problemsOf({ env })).toEqual([message]);
  });

  it('name every problem at once, and the file and key for those of the file', () => {
    write('httpPort: -1\nredis-url: redis://a\n');
    const problems = problemsOf({ env: { FUSELINE_SHARDS: 'x' }, flags: { rulez: 'a' } });
    expect(problems).toEqual([
      '--rulez is not a setting',
      `"redis-url" in ${join(cwd, 'fuseline.config.yaml')} is not a setting (is redisUrl meant?)`,
      `httpPort in ${join(cwd, 'fuseline.config.yaml')}: must be a whole number from 0 to 65535, got -1`,
      'FUSELINE_SHARDS: must be a whole number from 1 to 256, got "x"',
    ]);
  });

  it('warn about an unknown FUSELINE_ variable without refusing it, because Kubernetes makes such names', () => {
    const { warnings } = load({ env: { FUSELINE_SERVICE_HOST: '10.0.0.1', FUSELINE_REDISURL: 'x', PATH: '/bin' } });
    expect(warnings).toEqual([
      'FUSELINE_SERVICE_HOST is not a setting of this version; it is ignored',
      'FUSELINE_REDISURL is not a setting of this version (is FUSELINE_REDIS_URL meant?); it is ignored',
    ]);
  });

  it.each(['[1, 2]', 'a: [', '"text"'])('refuse a file that holds %s', (text) => {
    write(text);
    expect(problemsOf({})).toHaveLength(1);
  });

  it('refuse a file that was named and is not there', () => {
    expect(problemsOf({ configFile: join(cwd, 'missing.yaml') })).toEqual([
      `${join(cwd, 'missing.yaml')} cannot be read (ENOENT)`,
    ]);
  });

  it('never show a password: not in config show, not in a refusal', () => {
    const lines = describeSettings(
      load({ env: { FUSELINE_REDIS_URL: 'redis://user:hush@a:1/2', FUSELINE_FRESH_FOR: '90s' } }),
    );
    expect(lines.find(({ name }) => name === 'queueRedisUrl')).toMatchObject({
      value: 'redis://user:***@a:1/2',
      origin: 'redisUrl',
    });
    expect(lines.find(({ name }) => name === 'freshFor')).toMatchObject({
      value: '90s',
      origin: 'environment',
      env: 'FUSELINE_FRESH_FOR',
    });
    expect(JSON.stringify(lines)).not.toContain('hush');

    for (const url of [
      'redis://user:hush@a:99999',
      'http://user:hush@a',
      'redis-cluster://user:hush@a:1/3',
      'redis://u:hush%E0@a:1',
      'redis-sentinel://:hush@a',
    ]) {
      const problems = problemsOf({ env: { FUSELINE_REDIS_URL: url } }).join();
      expect(problems).toContain('FUSELINE_REDIS_URL');
      expect(problems).not.toContain('hush');
    }
  });
});

it('names an option of createFuseline as the caller wrote it', async () => {
  await expect(createFuseline({ url: 'localhost:6379' })).rejects.toThrow(
    /^the option url: not a Redis URL: localhost:6379 /,
  );
  await expect(createFuseline({ logUrl: 'localhost:6379' })).rejects.toThrow(/^the option logUrl: /);
});
