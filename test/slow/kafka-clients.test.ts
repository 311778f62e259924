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

it('speaks TLS and tells who it is, with a password or a certificate, by settings alone, and never shows the password', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'fuseline-tls-'));
  releaseAtEnd(() => rm(dir, { recursive: true, force: true }));
  const [keyFile, certFile] = await certificate(dir, 'localhost');
  const [clientKeyFile, clientCertFile] = await certificate(dir, 'ann');
  const [byPassword, byCertificate] = [await freePort(), await freePort()];
  const module = 'org.apache.kafka.common.security';
  const broker = await startKafka({
    listeners: { SASL_SSL: byPassword, SSL: byCertificate },
    properties: {
      'ssl.keystore.type': 'PEM',
      'ssl.keystore.key': await readFile(keyFile, 'utf8'),
      'ssl.keystore.certificate.chain': await readFile(certFile, 'utf8'),
      'listener.name.ssl.ssl.client.auth': 'required',
      'listener.name.ssl.ssl.truststore.type': 'PEM',
      'listener.name.ssl.ssl.truststore.certificates': await readFile(clientCertFile, 'utf8'),
      'sasl.enabled.mechanisms': 'PLAIN,SCRAM-SHA-256,SCRAM-SHA-512',
      'listener.name.sasl_ssl.plain.sasl.jaas.config': `${module}.plain.PlainLoginModule required user_ann="right";`,
      'listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config': `${module}.scram.ScramLoginModule required;`,
      'listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config': `${module}.scram.ScramLoginModule required;`,
    },
    scram: ['SCRAM-SHA-256=[name=bea,password=right-256]', 'SCRAM-SHA-512=[name=cai,password=right-512]'],
  });
  const topic = uniqueTopic();
  await withAdmin({ brokers: [broker.brokers] }, (admin) =>
    createTopics(admin, { topic, partitions: 1, replicas: 1, retentionMs: 3_600_000 }),
  );
  const tls = {
    FUSELINE_TRANSPORT: 'kafka',
    FUSELINE_KAFKA_TOPIC: topic,
    FUSELINE_KAFKA_SSL: 'true',
    FUSELINE_KAFKA_SSL_CA: certFile,
  };
  const as = (mechanism: string, username: string, password: string) => ({
    ...tls,
    FUSELINE_KAFKA_BROKERS: `127.0.0.1:${byPassword}`,
    FUSELINE_KAFKA_SASL_MECHANISM: mechanism,
    FUSELINE_KAFKA_SASL_USERNAME: username,
    FUSELINE_KAFKA_SASL_PASSWORD: password,
  });
  const anonymous = { ...tls, FUSELINE_KAFKA_BROKERS: `127.0.0.1:${byCertificate}` };
  const certified = {
    ...anonymous,
    FUSELINE_KAFKA_SSL_CERT: clientCertFile,
    FUSELINE_KAFKA_SSL_KEY: clientKeyFile,
  };
  const cli = async (env: Record<string, string>, ...args: string[]) => {
    const running = startProcess('dist/src/cli/main.js', args, env);
    const { code } = await running.exited;
    return { code, said: running.lines.join('\n') };
  };
  const createTopic = (env: Record<string, string>) => cli(env, 'kafka', 'create-topic');
  const [published, unnamed, ...rest] = await Promise.all([
    cli(as('scram-sha-256', 'bea', 'right-256'), 'publish', '--channel', 'A', '--failure'),
    createTopic(anonymous),
    ...[as('plain', 'ann', 'right'), as('scram-sha-512', 'cai', 'right-512'), certified].map(createTopic),
    ...[as('plain', 'ann', 'wrong'), as('scram-sha-256', 'bea', 'wrong'), as('scram-sha-512', 'bea', 'wrong')].map(
      createTopic,
    ),
  ]);
  expect(published.said).toContain('sent 1');
  expect(unnamed.code).toBe(1);
  for (const taken of rest.slice(0, 3))
    expect(taken).toMatchObject({ code: 0, said: expect.stringContaining(`${topic} exists already`) });
  for (const refused of rest.slice(3)) {
    expect(refused.code).toBe(1);
    expect(refused.said).toMatch(/authentication failed/i);
    expect(refused.said).not.toContain('wrong');
  }
}, 120_000);

/** Files of a key, and of a certificate that it signed itself. */
async function certificate(dir: string, name: string): Promise<[string, string]> {
  const [keyFile, certFile] = [join(dir, `${name}-key.pem`), join(dir, `${name}-cert.pem`)];
  const made = await run('openssl', [
    ...['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', `/CN=${name}`],
    ...['-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-keyout', keyFile, '-out', certFile],
  ]);
  expect(made.code, made.text).toBe(0);
  return [keyFile, certFile];
}
