import type { Command } from 'commander';
import { addressOf } from '../process/clients.js';
import { Keys } from '../redis/keys.js';
import type { Settings } from '../settings/definitions.js';
import { kafkaConnection } from '../settings/kafka-connection.js';
import { wholeArgument } from './arguments.js';
import { note, print, printJson } from './output.js';
import { withConnections } from './redis.js';
import { settingsOf } from './settings.js';
import { readStatus, type Status } from './status-read.js';
import { statusText } from './status-text.js';

type Flags = { json?: boolean; top: string };

/** `fuseline status` */
export function addStatus(program: Command): void {
  program
    .command('status')
    .summary('what is blocked, until when and why; what the workers do')
    .description(
      'Shows every channel that is blocked, on trial, watched after a block or kept in use by hand, the busiest ones beside them, and how the workers are. Reads only.',
    )
    .option('--json', 'for programs: one JSON document, times in ms of Redis, lengths in ms')
    .option('--top <n>', 'how many of the busiest channels to show', '20')
    .action(async ({ json, top }: Flags, command: Command) => {
      const busiest = wholeArgument('--top', top);
      const settings = settingsOf(command);
      const status = await withConnections(async ({ open }) => {
        const main = await open(settings.redisUrl, 'commands');
        const log = settings.logRedisUrl === settings.redisUrl ? main : await open(settings.logRedisUrl, 'commands');
        const askLog = settings.transport === 'kafka' ? { askLog: () => kafkaStatus(settings) } : {};
        return readStatus({ main, log, keys: new Keys(settings.prefix), busiest, ...askLog });
      });
      if (json) printJson(status);
      else print(statusText(status, addressOf(settings.redisUrl), settings.prefix));
    });
}

async function kafkaStatus(settings: Settings): Promise<Status['log']> {
  const { rootCause } = await import('../transport/kafka/client.js');
  const { topicLag } = await import('../transport/kafka/topic-view.js');
  try {
    const { partitions, lag } = await topicLag(kafkaConnection(settings), settings.kafkaTopic, settings.kafkaGroup);
    return { shards: partitions, lag };
  } catch (error) {
    note(`fuseline: warning: Kafka does not tell what waits: ${rootCause(error).message}`);
    return { shards: 0, lag: null };
  }
}
