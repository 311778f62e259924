import { Queue } from 'bullmq';
import type { Policy } from '../../src/domain/policy.js';
import type { Transition } from '../../src/domain/transition.js';
import { notifyJobId } from '../../src/queue/job-id.js';
import { closeRedis, openRedis, type RedisClient, whenReady } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import { shardLag } from '../../src/transport/redis-stream/shard-log.js';
import { listShards } from '../../src/transport/redis-stream/shards.js';
import type { HttpReceiver } from './http-receiver.js';
import { type LoggedChannels, readLog, replay } from './replay.js';
import { readFeedStories, storyProblems } from './story.js';
import { until } from './wait.js';

export type VerifierOptions = {
  /** Of the channels; the log and the queues are there too unless said otherwise. */
  url: string;
  logUrl?: string;
  /** The outcome log, where it is not on Redis. */
  log?: WholeLog;
  queueUrl?: string;
  prefix: string;
  policy: Policy;
  receiver?: HttpReceiver;
  /** Name of the receiver in the rules. */
  receiverName?: string;
  /** Newer news may have taken the place of older: then only the last message of each channel must be there. */
  merged?: boolean;
  /** Channels that were moved by hand or judged without the log: their blocks do not follow from it. */
  byHand?: readonly string[];
  /** A failover may have cost the story of messages that went out: only what Redis holds must agree with itself and with the log. */
  lossy?: boolean;
};

/** What a run published, as the log holds it at the end. */
export type WholeLog = {
  read(): Promise<LoggedChannels>;
  /** Dead letters, and what nobody has committed. */
  problems(): Promise<string[]>;
};

export type Verdict = {
  problems: string[];
  channels: number;
  outcomes: number;
  blocks: number;
  transitions: number;
  repeated: number;
  alerts: number;
};

/**
 * Looks at the end of a run from outside and says where it is not what the log demands: windows, block keys, states, agenda, announced
 * transitions, jobs, messages, dead letters, lag.
 */
export async function verify(options: VerifierOptions): Promise<Verdict> {
  const { url, logUrl = url, queueUrl = url, prefix, policy, byHand = [], lossy = false } = options;
  const keys = new Keys(prefix);
  const clients = [url, logUrl].map((each) => openRedis(each, 'queue-worker'));
  const [client, logClient] = clients as [RedisClient, RedisClient];
  try {
    await Promise.all(clients.map((each) => whenReady(each)));
    const whole = options.log ?? wholeStreams(logClient, keys);
    const log = await whole.read();
    const { stories, repeated, problems } = await readFeedStories(client, keys);
    let [outcomes, blocks] = [0, 0];
    for (const channel of new Set([...log.keys(), ...stories.keys()])) {
      const story = stories.get(channel) ?? [];
      problems.push(...storyProblems(story));
      let window: string | undefined;
      if (!byHand.includes(channel)) {
        const replayed = replay(channel, policy, log.get(channel) ?? [], story);
        problems.push(...replayed.problems.map((problem) => `${channel}: ${problem}`));
        outcomes += replayed.counted;
        blocks += replayed.blocks;
        window = replayed.window;
      }
      const found = await channelProblems(client, keys, channel, window, story);
      problems.push(...found.map((problem) => `${channel}: ${problem}`));
    }
    for (const channel of await channelsWithWindow(client, keys)) {
      // A failover that took outcomes from the log must not leave them in a window.
      if (!log.has(channel) && !byHand.includes(channel)) problems.push(`${channel}: a window, but nothing in the log`);
    }
    const all = [...stories.values()].flat();
    if (!lossy) problems.push(...(await jobProblems(queueUrl, keys, all)));
    problems.push(...(await whole.problems()));
    const alerts = options.receiver ? alertProblems(options, stories, problems) : 0;
    return { problems, channels: log.size, outcomes, blocks, transitions: all.length, repeated, alerts };
  } finally {
    await Promise.all(clients.map((each) => closeRedis(each)));
  }
}

async function channelsWithWindow(client: RedisClient, keys: Keys): Promise<string[]> {
  const [before, after] = keys.channel('\n')[0].split('\n') as [string, string];
  const names: string[] = [];
  const nodes = 'nodes' in client ? client.nodes('master') : [client];
  for (const node of nodes) {
    for await (const found of node.scanStream({ match: `${before}*${after}`, count: 1_000 })) {
      for (const key of found as string[]) names.push(key.slice(before.length, key.length - after.length));
    }
  }
  return names;
}

async function channelProblems(
  client: RedisClient,
  keys: Keys,
  channel: string,
  want: string | undefined,
  story: readonly Transition[],
): Promise<string[]> {
  const problems: string[] = [];
  const [health, blocked, state, , outbox] = keys.channel(channel);
  const slots = (await client.lrange(health, 0, -1)).join('');
  if (want !== undefined && slots !== want) problems.push(`the window is ${slots || 'empty'}, want ${want || 'empty'}`);
  const fields = await client.hgetall(state);
  const last = story.at(-1);
  const isOpen = last !== undefined && last.to === 'open';
  if ((fields.state === 'open') !== isOpen)
    problems.push(`the state is ${fields.state}, but ${last?.kind ?? 'nothing'} was told last`);
  if (last && Number(fields.epoch ?? 0) !== last.epoch)
    problems.push(`the state is of epoch ${fields.epoch}, but ${last.epoch} was told last`);
  const hasKey = (await client.exists(blocked)) === 1;
  if (hasKey && !isOpen) problems.push('the block key is there, but the channel is not blocked');
  if (!hasKey && isOpen) problems.push('the block key is not there, but the channel is blocked');
  if ((await client.exists(outbox)) === 1) problems.push('the outbox is not empty');
  const isWatched = Number(fields.hold ?? 0) > 0;
  if ((isOpen || isWatched) && (await client.zscore(keys.agenda, channel)) === null)
    problems.push('it is not on the agenda');
  return problems;
}

async function jobProblems(url: string, keys: Keys, all: readonly Transition[]): Promise<string[]> {
  const connection = openRedis(url, 'queue-worker');
  const queue = new Queue('notify', { connection, prefix: keys.queues });
  try {
    const jobs = await queue.getJobs(['waiting', 'delayed', 'completed', 'failed', 'active', 'prioritized'], 0, -1);
    const wanted = new Set(all.map((transition) => notifyJobId(transition)));
    const found = new Set(jobs.map((job) => job.id!));
    const missing = [...wanted].filter((id) => !found.has(id)).length;
    const extra = [...found].filter((id) => !wanted.has(id)).length;
    const failed = (await queue.getJobCounts('failed')).failed ?? 0;
    return [
      ...(missing > 0 ? [`${missing} transitions have no notify job`] : []),
      ...(extra > 0 ? [`${extra} notify jobs are of transitions that the feed does not have`] : []),
      ...(failed > 0 ? [`${failed} notify jobs failed`] : []),
    ];
  } finally {
    await queue.close();
    await closeRedis(connection);
  }
}

function wholeStreams(client: RedisClient, keys: Keys): WholeLog {
  return { read: () => readLog(client, keys), problems: () => logProblems(client, keys) };
}

async function logProblems(client: RedisClient, keys: Keys): Promise<string[]> {
  const problems: string[] = [];
  const dead = await client.xlen(keys.dead);
  if (dead > 0) problems.push(`${dead} dead letters`);
  for (const shard of await listShards(client, keys)) {
    const lag = await shardLag(client, keys.outcomes(shard));
    if (lag !== 0) problems.push(`shard ${shard} has lag ${lag}`);
  }
  return problems;
}

type Told = { id: string; channel: string; epoch: number; type: string };

/** Adds what is wrong with the messages that the receiver took; resolves to how many it took. */
function alertProblems(
  { receiver, receiverName = 'ops', merged = false, lossy = false }: VerifierOptions,
  stories: ReadonlyMap<string, readonly Transition[]>,
  problems: string[],
): number {
  const told = receiver!.requests.map(({ body }) => JSON.parse(body) as Told);
  const ids = told.map(({ id }) => id);
  const twice = ids.filter((id, i) => ids.indexOf(id) !== i);
  if (twice.length > 0) problems.push(`${twice.length} messages came twice`);
  for (const [channel, story] of stories) {
    const mine = told.filter((one) => one.channel === channel);
    const want = story.map((one) => notifyJobId(one, receiverName));
    if (mine.some(({ epoch }, i) => i > 0 && epoch <= mine[i - 1]!.epoch))
      problems.push(`${channel}: messages came out of order: ${mine.map(({ type }) => type).join(' ')}`);
    if (!lossy && mine.some(({ id }) => !want.includes(id)))
      problems.push(`${channel}: a message of a transition that was never announced`);
    const missing = merged ? want.slice(-1) : want;
    const lost = missing.filter((id) => !mine.some((one) => one.id === id));
    if (lost.length > 0) problems.push(`${channel}: ${lost.length} of ${want.length} messages never came`);
  }
  return told.length;
}

/** Verifies again and again until nothing is wrong, or the time is over: what is still under way is not yet a mistake. */
export async function verifyAtEnd(options: VerifierOptions, timeoutMs: number): Promise<Verdict> {
  let last: Verdict | undefined;
  const look = async () => {
    last = await verify(options);
    return last;
  };
  await until(look, {
    what: 'the end state that the log demands',
    accept: ({ problems }) => problems.length === 0,
    timeoutMs,
    intervalMs: 300,
  }).catch((error: unknown) => {
    if (!last) throw error;
  });
  return last!;
}
