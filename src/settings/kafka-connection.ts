import { readFileSync } from 'node:fs';
import type { KafkaConnection } from '../transport/kafka/options.js';
import type { Settings } from './definitions.js';
import { SettingsError } from './load.js';

/**
 * How to reach the brokers that the settings name; certificates are read from their files.
 *
 * @throws {SettingsError} no brokers are named, or a file cannot be read
 */
export function kafkaConnection(settings: Settings): KafkaConnection {
  const { kafkaBrokers, kafkaSsl, kafkaSslCa, kafkaSslCert, kafkaSslKey } = settings;
  const { kafkaSaslMechanism: mechanism, kafkaSaslUsername: username, kafkaSaslPassword: password } = settings;
  if (kafkaBrokers === undefined) throw new SettingsError(['FUSELINE_KAFKA_BROKERS: must be set to use Kafka']);
  const ssl = {
    ...pem('FUSELINE_KAFKA_SSL_CA', 'ca', kafkaSslCa),
    ...pem('FUSELINE_KAFKA_SSL_CERT', 'cert', kafkaSslCert),
    ...pem('FUSELINE_KAFKA_SSL_KEY', 'key', kafkaSslKey),
  };
  const hasSasl = mechanism !== undefined && username !== undefined && password !== undefined;
  return {
    brokers: kafkaBrokers.split(','),
    ...(kafkaSsl ? { ssl: Object.keys(ssl).length > 0 ? ssl : true } : {}),
    ...(hasSasl ? { sasl: { mechanism, username, password } } : {}),
  };
}

function pem(variable: string, name: string, path: string | undefined): Record<string, string> {
  if (path === undefined) return {};
  try {
    return { [name]: readFileSync(path, 'utf8') };
  } catch (error) {
    throw new SettingsError([`${variable}: the file cannot be read (${(error as NodeJS.ErrnoException).code})`]);
  }
}
