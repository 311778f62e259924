// Starts Apache Kafka brokers for tests, the demo and benchmarks, and sees to it that none outlives whoever started it.
// `node deploy/local/kafka.mjs` starts one and prints its address until Ctrl-C. Uses Node alone: it runs before `npm ci`.

import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { access, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { findKafka, run } from './find-kafka.mjs';
import { guardAgainstOrphan } from './guard.mjs';
import { freePort } from './redis-server.mjs';

export { findKafka };

const START_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 20_000;

/**
 * @typedef {object} RunningKafka
 * @property {string} brokers as `FUSELINE_KAFKA_BROKERS` wants them: `host:port`, several with commas between
 * @property {() => Promise<void>} stop ends it, if it was started here; may be called twice
 */

/**
 * @typedef {object} Started
 * @property {number} port on 127.0.0.1
 * @property {number} pid of the broker itself, for signals
 * @property {string} dir its data
 */

/** @type {Set<{ kill: () => void }>} */
const running = new Set();
process.on('exit', () => {
  for (const { kill } of running) kill();
});

/**
 * The brokers that `FUSELINE_KAFKA_BROKERS` names; without it, one started here.
 *
 * @returns {Promise<RunningKafka>}
 */
export async function openKafka() {
  const brokers = process.env.FUSELINE_KAFKA_BROKERS;
  return brokers ? { brokers, stop: async () => {} } : startKafka();
}

/**
 * Starts one broker (KRaft, 512 MB), waits until it answers and consumer groups may join, and takes care that it ends when this process
 * does.
 *
 * @param {object} [options]
 * @param {number} [options.port] default: a free one
 * @param {string} [options.dir] a folder that outlives the broker, for a restart with data; default: a temporary one
 * @param {Record<string, number>} [options.listeners] ports beside the plain one, by protocol: `{ SASL_SSL: 9093 }`
 * @param {Record<string, string>} [options.properties] of the broker; they win over ours
 * @param {string[]} [options.scram] users that its data begin with: `SCRAM-SHA-256=[name=ann,password=…]`
 * @returns {Promise<RunningKafka & Started>}
 */
export async function startKafka({ port, dir, listeners = {}, properties = {}, scram = [] } = {}) {
  const kafka = await findKafka();
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await startOnce(kafka, { port: port ?? (await freePort()), dir, listeners, properties, scram });
    } catch (error) {
      // Between finding a free port and binding it somebody else may take it.
      if (attempt === 5 || !/Address already in use|BindException/.test(error.message)) throw error;
    }
  }
}

/**
 * @param {import('./find-kafka.mjs').KafkaInstallation} kafka
 * @param {{ port: number, dir?: string, listeners: Record<string, number>, properties: Record<string, string>, scram: string[] }} options
 * @returns {Promise<RunningKafka & Started>}
 */
async function startOnce({ java, classPath }, { port, dir, listeners, properties, scram }) {
  const folder = dir ?? (await mkdtemp(join(tmpdir(), 'fuseline-kafka-')));
  const settings = join(folder, 'server.properties');
  const data = join(folder, 'data');
  await mkdir(folder, { recursive: true });
  await writeFile(settings, propertiesFile({ port, controllerPort: await freePort(), data, listeners, properties }));
  const jvm = ['-XX:+UseSerialGC', '-cp', classPath];
  if (!(await isFormatted(data))) {
    const id = randomBytes(16).toString('base64url');
    // With "=", because one id of 64 begins with a dash.
    const format = [
      '-XX:TieredStopAtLevel=1',
      ...jvm,
      'kafka.tools.StorageTool',
      'format',
      `--cluster-id=${id}`,
      '-c',
      settings,
      ...scram.map((user) => `--add-scram=${user}`),
    ];
    const { code, text } = await run(java, format);
    if (code !== 0) {
      if (dir === undefined) await rm(folder, { recursive: true, force: true });
      throw new Error(`the data folder of Kafka could not be made:\n${text.trim().slice(-2_000)}`);
    }
  }
  const child = spawn(java, ['-Xmx512m', ...jvm, 'kafka.Kafka', settings], { stdio: ['ignore', 'pipe', 'pipe'] });
  const exited = once(child, 'exit').catch(() => []);
  let log = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      log = `${log}${chunk}`.slice(-8_000);
    });
  }
  if (child.pid === undefined) throw new Error(`${java} does not start`);
  const pid = child.pid;
  const guard = guardAgainstOrphan(pid, dir === undefined ? folder : undefined);
  const entry = { kill: () => child.kill('SIGKILL') };
  running.add(entry);
  const hasExited = () => child.exitCode !== null || child.signalCode !== null;

  async function stop() {
    if (!hasExited()) {
      child.kill('SIGCONT');
      // Nobody wants the data of a temporary folder in good order.
      child.kill(dir === undefined ? 'SIGKILL' : 'SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
      await exited;
      clearTimeout(timer);
    }
    running.delete(entry);
    guard.kill('SIGKILL');
    if (dir === undefined) await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }

  try {
    await untilGroupsMayJoin(port, hasExited);
  } catch (error) {
    await stop();
    throw new Error(`Kafka on port ${port}: ${error.message}\n${log.trim()}`, { cause: error });
  }
  return { brokers: `127.0.0.1:${port}`, port, pid, dir: folder, stop };
}

/** @param {string} data */
function isFormatted(data) {
  return access(join(data, 'meta.properties')).then(
    () => true,
    () => false,
  );
}

/**
 * @param {{ port: number, controllerPort: number, data: string, listeners: Record<string, number>, properties: Record<string, string> }} options
 */
function propertiesFile({ port, controllerPort, data, listeners, properties }) {
  const open = Object.entries({ PLAINTEXT: port, ...listeners }).map(([kind, each]) => `${kind}://127.0.0.1:${each}`);
  const all = {
    'process.roles': 'broker,controller',
    'node.id': '1',
    'controller.quorum.voters': `1@127.0.0.1:${controllerPort}`,
    listeners: [...open, `CONTROLLER://127.0.0.1:${controllerPort}`].join(),
    'advertised.listeners': open.join(),
    'controller.listener.names': 'CONTROLLER',
    'listener.security.protocol.map':
      'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL',
    'log.dirs': data,
    'offsets.topic.replication.factor': '1',
    'transaction.state.log.replication.factor': '1',
    'share.coordinator.state.topic.replication.factor': '1',
    'transaction.state.log.min.isr': '1',
    'offsets.topic.num.partitions': '1',
    'group.initial.rebalance.delay.ms': '0',
    'num.network.threads': '2',
    'num.io.threads': '2',
    ...properties,
  };
  return Object.entries(all)
    .map(([key, value]) => `${key}=${value.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}\n`)
    .join('');
}

/**
 * A fresh broker listens before it coordinates groups: for seconds it would answer "not available" and "loading" to whoever joins one.
 *
 * @param {number} port
 * @param {() => boolean} hasExited
 */
async function untilGroupsMayJoin(port, hasExited) {
  const end = performance.now() + START_TIMEOUT_MS;
  let last = 'no answer';
  while (performance.now() < end) {
    if (hasExited()) throw new Error('it ended at once');
    try {
      // FindCoordinator v0 makes the topic of offsets; OffsetFetch v2 of all topics says whether it is loaded.
      const found = (await request(port, 10, 0, kafkaString('warm-up'))).readInt16BE(0);
      const answer =
        found === 0 ? await request(port, 9, 2, Buffer.concat([kafkaString('warm-up'), NULL_ARRAY])) : null;
      const error = answer === null ? found : answer.readInt16BE(answer.length - 2);
      if (error === 0) return;
      last = `error ${error}`;
    } catch (error) {
      last = error.message;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`not ready within ${START_TIMEOUT_MS} ms, last: ${last}`);
}

const NULL_ARRAY = Buffer.from([0xff, 0xff, 0xff, 0xff]);

/** @param {string} text */
function kafkaString(text) {
  const bytes = Buffer.from(text);
  const length = Buffer.alloc(2);
  length.writeInt16BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

/**
 * One request in Kafka's own protocol (header version 1).
 *
 * @param {number} port
 * @param {number} api
 * @param {number} version
 * @param {Buffer} body
 * @returns {Promise<Buffer>} the answer without length and correlation id
 */
function request(port, api, version, body) {
  const header = Buffer.alloc(12);
  header.writeInt16BE(api, 4);
  header.writeInt16BE(version, 6);
  header.writeInt32BE(1, 8);
  const whole = Buffer.concat([header, kafkaString('fuseline'), body]);
  whole.writeInt32BE(whole.length - 4, 0);
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1' }, () => socket.write(whole));
    let reply = Buffer.alloc(0);
    socket.setTimeout(2_000, () => socket.destroy());
    socket.on('data', (chunk) => {
      reply = Buffer.concat([reply, chunk]);
      if (reply.length >= 4 && reply.length >= reply.readInt32BE(0) + 4) {
        resolve(reply.subarray(8));
        socket.destroy();
      }
    });
    socket.once('error', reject);
    socket.once('close', () => reject(new Error('no whole answer')));
  });
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  try {
    const { brokers, stop } = await openKafka();
    console.log(`FUSELINE_KAFKA_BROKERS=${brokers}`);
    const timer = setInterval(() => {}, 60_000);
    const end = () => {
      clearInterval(timer);
      void stop();
    };
    process.once('SIGINT', end).once('SIGTERM', end);
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
