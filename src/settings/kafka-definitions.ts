import { z } from 'zod';
import { define, text, yesOrNo } from './kinds.js';

/** The settings of the outcome log on Kafka, by name; part of `DEFINITIONS`. */
export const KAFKA_DEFINITIONS = {
  kafkaBrokers: define({
    env: 'FUSELINE_KAFKA_BROKERS',
    schema: text('must be host:port, several with commas between', (value) =>
      /^[^\s,:]+:\d{1,5}(,[^\s,:]+:\d{1,5})*$/.test(value),
    ),
    fallback: undefined,
    about: 'some of the brokers, host:port with commas between; needed with kafka',
  }),
  kafkaTopic: define({
    env: 'FUSELINE_KAFKA_TOPIC',
    // The topic of dead letters has ".dead" behind the same name, and 249 is the most that Kafka takes.
    schema: text('must be 1 to 244 of letters, digits, ".", "_" and "-"', (value) =>
      /^[A-Za-z0-9._-]{1,244}$/.test(value),
    ),
    fallback: 'fuseline.outcomes',
    about: 'topic of outcomes; its dead letters go to <topic>.dead',
  }),
  kafkaGroup: define({
    env: 'FUSELINE_KAFKA_GROUP',
    schema: text('must be 1 to 249 characters', (value) => value.length <= 249),
    fallback: 'fuseline',
    about: 'consumer group of the workers',
  }),
  kafkaCompression: define<'none' | 'gzip'>({
    env: 'FUSELINE_KAFKA_COMPRESSION',
    schema: z.enum(['none', 'gzip'], { error: 'must be none or gzip' }),
    fallback: 'none',
    about: 'how our publishers compress: none or gzip; gzip, snappy, lz4 and zstd are read',
  }),
  kafkaSsl: define({
    env: 'FUSELINE_KAFKA_SSL',
    schema: yesOrNo,
    fallback: false,
    about: 'whether brokers are spoken to over TLS',
  }),
  kafkaSslCa: define({
    env: 'FUSELINE_KAFKA_SSL_CA',
    schema: text('must be the path of a PEM file', () => true),
    fallback: undefined,
    about: 'who signed the certificates of the brokers; default: whom Node trusts',
  }),
  kafkaSslCert: define({
    env: 'FUSELINE_KAFKA_SSL_CERT',
    schema: text('must be the path of a PEM file', () => true),
    fallback: undefined,
    about: 'certificate of this client, where brokers ask for one',
  }),
  kafkaSslKey: define({
    env: 'FUSELINE_KAFKA_SSL_KEY',
    schema: text('must be the path of a PEM file', () => true),
    fallback: undefined,
    about: 'key of that certificate',
  }),
  kafkaSaslMechanism: define<'plain' | 'scram-sha-256' | 'scram-sha-512'>({
    env: 'FUSELINE_KAFKA_SASL_MECHANISM',
    schema: z.enum(['plain', 'scram-sha-256', 'scram-sha-512'], {
      error: 'must be plain, scram-sha-256 or scram-sha-512',
    }),
    fallback: undefined,
    about: 'how this client tells who it is: plain, scram-sha-256 or scram-sha-512; default: not at all',
  }),
  kafkaSaslUsername: define({
    env: 'FUSELINE_KAFKA_SASL_USERNAME',
    schema: text('must be a name', () => true),
    fallback: undefined,
    about: 'goes with kafkaSaslMechanism',
  }),
  kafkaSaslPassword: define({
    env: 'FUSELINE_KAFKA_SASL_PASSWORD',
    schema: z.string({ error: 'must be a password' }).min(1, { error: 'must be a password' }),
    fallback: undefined,
    mask: () => '***',
    about: 'goes with kafkaSaslMechanism',
  }),
} as const;

type Given = Readonly<Partial<Record<keyof typeof KAFKA_DEFINITIONS | 'transport', unknown>>>;

/** What single settings cannot tell: those that need each other. One sentence each. */
export function kafkaProblems(given: Given): string[] {
  const problems: string[] = [];
  if (given.transport === 'kafka' && given.kafkaBrokers === undefined)
    problems.push('FUSELINE_KAFKA_BROKERS: must be set when the transport is kafka');
  const sasl = [given.kafkaSaslMechanism, given.kafkaSaslUsername, given.kafkaSaslPassword];
  if (sasl.includes(undefined) && sasl.some((part) => part !== undefined))
    problems.push(
      'FUSELINE_KAFKA_SASL_MECHANISM, FUSELINE_KAFKA_SASL_USERNAME and FUSELINE_KAFKA_SASL_PASSWORD: all or none must be set',
    );
  if ((given.kafkaSslCert === undefined) !== (given.kafkaSslKey === undefined))
    problems.push('FUSELINE_KAFKA_SSL_CERT and FUSELINE_KAFKA_SSL_KEY: both or none must be set');
  const unused = [given.kafkaSslCa, given.kafkaSslCert].some((path) => path !== undefined) && given.kafkaSsl !== true;
  if (unused) problems.push('FUSELINE_KAFKA_SSL: must be true when certificates are given');
  return problems;
}
