import kafkajs, { type Admin } from 'kafkajs';
import { deadTopic } from './options.js';

export type TopicOptions = {
  readonly topic: string;
  /** Most workers that can share the topic. */
  readonly partitions: number;
  /** Copies of each partition; -1: as the brokers are set. */
  readonly replicas: number;
  readonly retentionMs: number;
};

/** Dead letters wait for a person: two weeks. */
const DEAD_RETENTION_MS = 14 * 86_400_000;

/**
 * Makes the topic of outcomes, with the log's own clock, and the one of its dead letters. Resolves to the names of those that were
 * made; what exists already is left as it is.
 *
 * @throws what the brokers answer
 */
export async function createTopics(admin: Admin, options: TopicOptions): Promise<string[]> {
  const { topic, partitions, replicas, retentionMs } = options;
  const wanted = [
    {
      topic,
      numPartitions: partitions,
      replicationFactor: replicas,
      configEntries: [
        { name: 'message.timestamp.type', value: 'LogAppendTime' },
        { name: 'cleanup.policy', value: 'delete' },
        { name: 'retention.ms', value: String(retentionMs) },
      ],
    },
    deadTopicConfig(topic, replicas),
  ];
  const made: string[] = [];
  for (const one of wanted) if (await admin.createTopics({ topics: [one], waitForLeaders: true })) made.push(one.topic);
  return made;
}

/** Makes the topic of dead letters, if it is missing. */
export async function createDeadTopic(admin: Admin, topic: string): Promise<void> {
  await admin.createTopics({ topics: [deadTopicConfig(topic, -1)], waitForLeaders: true });
}

function deadTopicConfig(topic: string, replicas: number) {
  return {
    topic: deadTopic(topic),
    numPartitions: 1,
    replicationFactor: replicas,
    configEntries: [{ name: 'retention.ms', value: String(DEAD_RETENTION_MS) }],
  };
}

export type Clock = 'LogAppendTime' | 'CreateTime' | 'unknown';

/** Whose clock stamps the topic's entries; unknown where the brokers do not let us ask. */
export async function clockOf(admin: Admin, topic: string): Promise<Clock> {
  try {
    const { resources } = await admin.describeConfigs({
      includeSynonyms: false,
      resources: [{ type: kafkajs.ConfigResourceTypes.TOPIC, name: topic, configNames: ['message.timestamp.type'] }],
    });
    const value = resources[0]?.configEntries.find(
      (entry) => entry.configName === 'message.timestamp.type',
    )?.configValue;
    return value === 'LogAppendTime' || value === 'CreateTime' ? value : 'unknown';
  } catch {
    return 'unknown';
  }
}
