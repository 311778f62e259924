import { withAdmin } from '../../src/transport/kafka/client.js';
import { deadTopic } from '../../src/transport/kafka/options.js';
import { readTopicRange } from '../../src/transport/kafka/range.js';
import { addEntry, type LoggedChannels } from '../support/replay.js';
import type { WholeLog } from '../support/verifier.js';

const EVER = { fromMs: 0, toMs: Number.POSITIVE_INFINITY };

/** All that these topics hold, for a verifier. Each is read by a group of its own name. Read anew only when one has grown. */
export function wholeTopics(brokers: string, topics: readonly string[]): WholeLog {
  const connection = { brokers: brokers.split(',') };
  let known: { ends: string; log: LoggedChannels } | undefined;

  async function readAll(): Promise<LoggedChannels> {
    const log: LoggedChannels = new Map();
    const readOne = async (topic: string) => {
      const range = await readTopicRange(connection, topic, EVER, (sentence) => {
        throw new Error(sentence);
      });
      for (const { entries } of range.partitions)
        for await (const some of entries) for (const entry of some) addEntry(log, entry);
      await range.close();
    };
    await Promise.all(topics.map(readOne));
    return log;
  }

  return {
    async read() {
      const ends = await withAdmin(connection, async (admin) =>
        JSON.stringify(await Promise.all(topics.map((topic) => admin.fetchTopicOffsets(topic)))),
      );
      if (known?.ends !== ends) known = { ends, log: await readAll() };
      return known.log;
    },
    problems: () =>
      withAdmin(connection, async (admin) => {
        const problemsOf = async (topic: string) => {
          const [ends, groups, dead] = await Promise.all([
            admin.fetchTopicOffsets(topic),
            admin.fetchOffsets({ groupId: topic, topics: [topic] }),
            admin.fetchTopicOffsets(deadTopic(topic)),
          ]);
          const committed = new Map(groups[0]?.partitions.map(({ partition, offset }) => [partition, offset]));
          return [
            ...dead.filter(({ high }) => high !== '0').map(({ high }) => `${topic}: ${high} dead letters`),
            ...ends
              .filter(({ partition, high }) => high !== '0' && committed.get(partition) !== high)
              .map(
                ({ partition, high }) => `${topic}/${partition} ends at ${high}, committed ${committed.get(partition)}`,
              ),
          ];
        };
        return (await Promise.all(topics.map(problemsOf))).flat();
      }),
  };
}
