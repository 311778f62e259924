import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { findKafka, run } from '../../deploy/local/find-kafka.mjs';
import { freePort } from '../../deploy/local/redis-server.mjs';
import { withAdmin } from '../../src/transport/kafka/client.js';
import { createTopics } from '../../src/transport/kafka/topic.js';
import { openKafkaLog } from '../kafka/kafka-log.js';
import { checkout } from '../support/files.js';
import { sharedKafka, startKafka, uniqueTopic } from '../support/kafka.js';
import { startProcess } from '../support/processes.js';
import { releaseAtEnd } from '../support/releasers.js';
import { until } from '../support/wait.js';
import { collector } from '../transport/conformance.js';

beforeAll(sharedKafka, 120_000);

it('reads batches that Java clients compress with gzip, snappy, lz4 and zstd, and finds them where our own would put them', async () => {
  const log = await openKafkaLog(await sharedKafka(), { partitions: 4 });
  releaseAtEnd(log.close);
  const { java, classPath } = await findKafka();
  const child = spawn(java, ['-Xmx256m', '-cp', classPath, 'test/kafka/java/Producer.java', log.brokers, log.topic], {
    cwd: checkout,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  releaseAtEnd(async () => void child.kill('SIGKILL'));
  const [code] = await once(child, 'exit');
  expect(code).toBe(0);
  const seen = collector();
  const stop = new AbortController();
  const partitions = new Map<string, string>();
  const ended = log.reader().run(async (batch, signal) => {
    for (const { outcomes } of batch.entries)
      partitions.set((outcomes[0] as { channel: string }).channel, batch.partition.split('/')[2]!);
    await seen.handler(batch, signal);
  }, stop.signal);
  await until(() => seen.outcomes.length >= 10_000, { what: 'ten thousand outcomes', timeoutMs: 30_000 });
  for (const codec of ['none', 'gzip', 'snappy', 'lz4', 'zstd']) {
    const channel = `${codec}-微信支付`;
    const mine = seen.of(channel);
    expect(mine.map(({ durationMs }) => durationMs)).toEqual(Array.from({ length: 2_000 }, (_, n) => n));
    expect(mine.every(({ success, durationMs }) => success === (durationMs! % 3 !== 0))).toBe(true);
    expect(Number(partitions.get(channel))).toBe(log.partitionOf(channel));
  }
  stop.abort();
  await ended;
}, 120_000);

it('speaks TLS and tells who it is, by settings alone, and never shows the password', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'fuseline-tls-'));
  releaseAtEnd(() => rm(dir, { recursive: true, force: true }));
  const [keyFile, certFile] = [join(dir, 'key.pem'), join(dir, 'cert.pem')];
  const made = await run('openssl', [
    ...['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost'],
    ...['-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-keyout', keyFile, '-out', certFile],
  ]);
  expect(made.code, made.text).toBe(0);
  const secure = await freePort();
  const module = 'org.apache.kafka.common.security.plain.PlainLoginModule';
  const broker = await startKafka({
    listeners: { SASL_SSL: secure },
    properties: {
      'ssl.keystore.type': 'PEM',
      'ssl.keystore.key': await readFile(keyFile, 'utf8'),
      'ssl.keystore.certificate.chain': await readFile(certFile, 'utf8'),
      'sasl.enabled.mechanisms': 'PLAIN',
      'listener.name.sasl_ssl.plain.sasl.jaas.config': `${module} required user_ann="right";`,
    },
  });
  const topic = uniqueTopic();
  await withAdmin({ brokers: [broker.brokers] }, (admin) =>
    createTopics(admin, { topic, partitions: 1, replicas: 1, retentionMs: 3_600_000 }),
  );
  const env = (password: string) => ({
    FUSELINE_TRANSPORT: 'kafka',
    FUSELINE_KAFKA_BROKERS: `127.0.0.1:${secure}`,
    FUSELINE_KAFKA_TOPIC: topic,
    FUSELINE_KAFKA_SSL: 'true',
    FUSELINE_KAFKA_SSL_CA: certFile,
    FUSELINE_KAFKA_SASL_MECHANISM: 'plain',
    FUSELINE_KAFKA_SASL_USERNAME: 'ann',
    FUSELINE_KAFKA_SASL_PASSWORD: password,
  });
  const cli = async (password: string, ...args: string[]) => {
    const running = startProcess('dist/src/cli/main.js', args, env(password));
    const { code } = await running.exited;
    return { code, said: running.lines.join('\n') };
  };
  expect(await cli('right', 'kafka', 'create-topic')).toMatchObject({
    code: 0,
    said: expect.stringContaining(`${topic} exists already`),
  });
  expect((await cli('right', 'publish', '--channel', 'A', '--failure')).said).toContain('sent 1');
  const refused = await cli('wrong', 'kafka', 'create-topic');
  expect(refused.code).toBe(1);
  expect(refused.said).toMatch(/authentication failed/i);
  expect(refused.said).not.toContain('wrong');
}, 120_000);
