import kafkajs, { type Admin, type ITopicConfig } from 'kafkajs';
import { sleep } from '../../redis/deadline.js';
import { isUnknownTopic, rootCause } from './client.js';
import { deadTopic } from './options.js';

export type TopicOptions = {
  readonly topic: string;
  /** Most workers that can share the topic. */
  readonly partitions: number;
  /** Copies of each partition; -1: as the brokers are set. */
  readonly replicas: number;
  readonly retentionMs: number;
};

const LEADERS_WITHIN_MS = 10_000;
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
  for (const one of wanted) if (await create(admin, one)) made.push(one.topic);
  return made;
}

/** Makes the topic of dead letters, if it is missing. */
export async function createDeadTopic(admin: Admin, topic: string): Promise<void> {
  await create(admin, deadTopicConfig(topic, -1));
}

/** kafkajs can wait for leaders too, but takes a broker that has not heard of the topic yet for a failure. */
async function create(admin: Admin, topic: ITopicConfig): Promise<boolean> {
  if (!(await admin.createTopics({ topics: [topic], waitForLeaders: false }))) return false;
  for (const end = performance.now() + LEADERS_WITHIN_MS; ; ) {
    try {
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic.topic] });
      if (topics[0]?.partitions.every(({ leader }) => leader >= 0)) return true;
    } catch (error) {
      if (!isUnknownTopic(error) && rootCause(error).type !== 'LEADER_NOT_AVAILABLE') throw error;
    }
    if (performance.now() > end) throw new Error(`the topic ${topic.topic} was made, but has no leaders yet`);
    await sleep(100);
  }
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

/** What to tell of a topic whose entries do not carry the log's own clock. */
export function clockWarning(topic: string, clock: Clock): string {
  const what = clock === 'unknown' ? 'cannot be asked for its clock' : 'is stamped by the clocks of its producers';
  return `the topic ${topic} ${what}: set message.timestamp.type=LogAppendTime, or outcomes of hosts whose clocks go wrong are judged wrongly`;
}
