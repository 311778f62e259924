// Finds Apache Kafka to run tests and the demo against, without root, and without touching anything outside this folder.
// Uses Node alone, because it runs before `npm ci`. Nothing of Kafka is needed unless somebody asks for it.

import { spawn } from 'node:child_process';
import { access, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const KAFKA = '4.3.1';
const LEAST_JAVA = 17;

const checkout = fileURLToPath(new URL('../..', import.meta.url));

/**
 * @typedef {object} KafkaInstallation
 * @property {string} java the command, version 17 or later
 * @property {string} classPath everything that broker, tools and Java clients need
 * @property {string} version of Kafka
 */

/**
 * Looks for Java, then into `.cache/kafka`, which it fills with Maven if it must. Rejects with a message that names the command to type
 * when Java or Maven is missing.
 *
 * @param {{ cacheDir?: string, log?: (line: string) => void }} [options] `log` hears of a download
 * @returns {Promise<KafkaInstallation>}
 */
export async function findKafka({ cacheDir = join(checkout, '.cache'), log = toStderr } = {}) {
  const java = process.env.JAVA_HOME ? join(process.env.JAVA_HOME, 'bin', 'java') : 'java';
  const version = await javaVersion(java);
  if (version === undefined) throw new Error(advice(`${java} does not run`));
  if (version < LEAST_JAVA) throw new Error(advice(`${java} is version ${version}`));

  const place = join(cacheDir, 'kafka', KAFKA);
  if (!(await isComplete(place))) {
    const mvn = await run('mvn', ['-version']).catch(() => ({ code: 1 }));
    if (mvn.code !== 0) throw new Error(advice('mvn does not run'));
    log(`fetching Apache Kafka ${KAFKA} with Maven into .cache/kafka (45 MB, once)`);
    await fetchWithMaven(cacheDir, place);
  }
  return { java, classPath: join(place, 'libs', '*'), version: KAFKA };
}

/** @param {string} line */
function toStderr(line) {
  process.stderr.write(`${line}\n`);
}

/** @param {string} why */
function advice(why) {
  return [
    `Apache Kafka needs Java ${LEAST_JAVA} or later, and Maven to fetch it once: ${why}. Install both:`,
    '  Debian, Ubuntu   sudo apt-get install openjdk-17-jre-headless maven',
    '  macOS            brew install openjdk@17 maven    (and set JAVA_HOME as brew says)',
    '  Windows          wsl --install -d Debian    (then work inside it, with the first line)',
    'or name brokers that run: FUSELINE_KAFKA_BROKERS=host:9092',
  ].join('\n');
}

/**
 * @param {string} java
 * @returns {Promise<number | undefined>} the major version; nothing when it does not run
 */
async function javaVersion(java) {
  // It says so on standard error: openjdk version "17.0.15" 2025-04-15
  const { code, text } = await run(java, ['-version']).catch(() => ({ code: 1, text: '' }));
  const major = code === 0 ? /version "(\d+)/.exec(text)?.[1] : undefined;
  return major === undefined ? undefined : Number(major);
}

/** @param {string} place */
async function isComplete(place) {
  return access(join(place, 'libs', `kafka_2.13-${KAFKA}.jar`)).then(
    () => true,
    () => false,
  );
}

/**
 * Works in a folder of its own and renames it at the end, so that two processes that do this at once harm nobody. Maven's repository
 * lies in there too, and goes afterwards.
 *
 * @param {string} cacheDir
 * @param {string} place
 */
async function fetchWithMaven(cacheDir, place) {
  await mkdir(join(cacheDir, 'kafka'), { recursive: true });
  const work = await mkdtemp(join(cacheDir, 'kafka-fetching-'));
  try {
    const made = join(work, 'kafka');
    await writeFile(join(work, 'pom.xml'), pom());
    const { code, text } = await run('mvn', [
      ...['-B', '-ntp', '-f', join(work, 'pom.xml'), `-Dmaven.repo.local=${join(work, 'repository')}`],
      ...['org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies'],
      ...['-DincludeScope=runtime', `-DoutputDirectory=${join(made, 'libs')}`],
    ]);
    if (code !== 0 || !(await isComplete(made))) {
      const errors = text.split('\n').filter((line) => line.includes('ERROR'));
      throw new Error(`Maven could not fetch Apache Kafka ${KAFKA}:\n${errors.slice(0, 5).join('\n')}`);
    }
    await putInPlace(made, place);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/**
 * @param {string} made
 * @param {string} place
 */
async function putInPlace(made, place) {
  try {
    await rename(made, place);
  } catch {
    // Somebody was faster, or half of it lies there.
    if (await isComplete(place)) return;
    await rm(place, { recursive: true, force: true });
    await rename(made, place);
  }
}

function pom() {
  return `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>${KAFKA}</version></dependency>
  </dependencies>
</project>
`;
}

/**
 * @param {string} command
 * @param {string[]} args
 * @returns {Promise<{ code: number | null, text: string }>} `text` is what it said on both outputs
 */
export function run(command, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, LC_ALL: 'C' } });
    let text = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        text += chunk;
      });
    }
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, text }));
  });
}
