import { randomBytes } from 'node:crypto';
import kafkajs, { type Kafka } from 'kafkajs';
import { startKafka as start } from '../../deploy/local/kafka.mjs';
import { fromDesk } from './desk.js';
import { releaseAtEnd } from './releasers.js';

/** `brokers` as `FUSELINE_KAFKA_BROKERS` wants them; `pid` is for signals; `stop` may be called twice. */
export type KafkaBroker = Awaited<ReturnType<typeof start>>;

/**
 * The brokers that all test files share: those of `FUSELINE_KAFKA_BROKERS`, or one started when the first test asks. Stay in topics and
 * groups of your own ({@link uniqueTopic}).
 */
export async function sharedKafka(): Promise<string> {
  return fromDesk<string>('kafka');
}

export function uniqueTopic(): string {
  return `test-${randomBytes(6).toString('hex')}`;
}

/** A broker of the test's own, to be frozen, restarted or killed; stopped at the end of the test. */
export async function startKafka(options: Parameters<typeof start>[0] = {}): Promise<KafkaBroker> {
  const broker = await start(options);
  releaseAtEnd(broker.stop);
  return broker;
}

/** kafkajs as any other program would use it, quiet. */
export function plainKafka(brokers: string): Kafka {
  return new kafkajs.Kafka({
    brokers: brokers.split(','),
    clientId: 'test',
    connectionTimeout: 5_000,
    logLevel: kafkajs.logLevel.NOTHING,
  });
}
