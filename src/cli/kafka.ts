import type { Command } from 'commander';
import { kafkaConnection } from '../settings/kafka-connection.js';
import { durationArgument, wholeArgument } from './arguments.js';
import { CliError, usage } from './failure.js';
import { note, print } from './output.js';
import { settingsOf } from './settings.js';

type Flags = { partitions: string; replicas?: string; retention: string };

const PARTITIONS_MAX = 10_000;
const REPLICAS_MAX = 100;
/** A person waits. */
const IMPATIENT = { initialRetryTime: 200, retries: 2 };

/** `fuseline kafka create-topic` */
export function addKafka(program: Command): void {
  program
    .command('kafka')
    .summary('prepare the outcome log on Kafka')
    .command('create-topic')
    .summary('make the topic of outcomes and the one of its dead letters')
    .description(
      `Makes the topic that the settings name, stamped by the brokers' clock (LogAppendTime), and <topic>.dead beside it. What exists already is left as it is.

  fuseline kafka create-topic --kafka-brokers kafka:9092 --partitions 12

No more workers than partitions can share the work. More partitions later move channels: for a moment their order is not kept.`,
    )
    .option('--partitions <number>', 'parts that workers can share', '12')
    .option('--replicas <number>', 'copies of each; default: as the brokers are set')
    .option('--retention <duration>', 'how long outcomes stay', '24h')
    .action(async ({ partitions, replicas, retention }: Flags, command: Command) => {
      const settings = settingsOf(command);
      const { kafkaTopic: topic } = settings;
      const options = {
        topic,
        partitions: from1To(PARTITIONS_MAX, '--partitions', partitions),
        replicas: replicas === undefined ? -1 : from1To(REPLICAS_MAX, '--replicas', replicas),
        retentionMs: durationArgument('--retention', retention),
      };
      const connection = kafkaConnection(settings);
      const { rootCause, withAdmin } = await import('../transport/kafka/client.js');
      const { clockOf, clockWarning, createTopics } = await import('../transport/kafka/topic.js');
      try {
        await withAdmin({ ...connection, retry: IMPATIENT }, async (admin) => {
          const made = await createTopics(admin, options);
          for (const name of [topic, `${topic}.dead`])
            print(
              made.includes(name) ? `made the topic ${name}` : `the topic ${name} exists already and is left as it is`,
            );
          const clock = await clockOf(admin, topic);
          if (clock !== 'LogAppendTime') note(`fuseline: warning: ${clockWarning(topic, clock)}`);
        });
      } catch (error) {
        throw new CliError(`Kafka at ${connection.brokers.join(',')}: ${rootCause(error).message}`, 1, {
          cause: error,
        });
      }
    });
}

function from1To(most: number, flag: string, text: string): number {
  const number = wholeArgument(flag, text);
  if (number < 1 || number > most) usage(`${flag} must be from 1 to ${most}, got ${number}`);
  return number;
}
