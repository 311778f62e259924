import { beforeAll, expect, it } from 'vitest';
import { changeByHand } from '../../src/cli/change-by-hand.js';
import { createPublisher } from '../../src/publisher/index.js';
import { loadSettings } from '../../src/settings/load.js';
import { judgesOf } from '../kafka/judge.js';
import { openKafkaLog } from '../kafka/kafka-log.js';
import { wholeTopics } from '../kafka/whole-topics.js';
import { metric } from '../process/workers.js';
import { type Fleet, openFleet, randomFrom, SHORT, seedOf, startLoad } from '../support/fleet.js';
import { sharedKafka } from '../support/kafka.js';
import { type RunningProcess, startProcess } from '../support/processes.js';
import { sharedRedisUrl } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';
import { type VerifierOptions, verifyAtEnd, type WholeLog } from '../support/verifier.js';
import { until } from '../support/wait.js';
import { queued } from '../transport/conformance.js';

/** Ended by hand, so that however slowly a worker starts again, nothing is over before it can be told. */
const POLICY = { ...SHORT, block: { ...SHORT.block, forMs: 1_800_000 } };
const RULES = { defaults: { window: 10, successRate: 70, block: '30m', hold: '1s' } };
/** The partitions of one that is not heard of are somebody else's after its session of 6 s; and processes start at the same time. */
const TAKEN_OVER = { timeoutMs: 40_000 };

beforeAll(sharedKafka, 120_000);

/** What happens to one worker, on a topic of one partition: all that is published before it reads comes in one batch. */
type Scene = {
  /** Channels by name, and their outcomes as text. */
  publish(outcomes: Record<string, string>): Promise<void>;
  /** Starts the worker, a process, that the signal meets at this scene's point. */
  start(signal: 'SIGKILL' | 'SIGSTOP'): RunningProcess;
  /** Starts the one, in this process, that gets its partition. */
  startHeir(): void;
};

type Stage<Point extends string> = { fleet: Fleet; scenes: Record<Point, Scene>; end: VerifierOptions };

/** A scene per point, each with a topic and a group of its own. Channels are named after the point: `before-commit/ALIPAY`. */
async function openStage<Point extends string>(points: readonly Point[]): Promise<Stage<Point>> {
  const [redis, brokers] = [sharedRedisUrl(), await sharedKafka()];
  const fleet = await openFleet({ redis, rules: RULES });
  const { prefix, receiver } = fleet;
  async function openScene(point: Point) {
    const log = await openKafkaLog(brokers, { partitions: 1, prefix });
    releaseAtEnd(log.close);
    const judges = await judgesOf(log, POLICY);
    const { topic } = log;
    const scene: Scene = {
      async publish(outcomes) {
        const batch = Object.entries(outcomes).flatMap(([channel, text]) =>
          [...text].map((one) => queued({ channel: `${point}/${channel}`, success: one === '1' })),
        );
        expect(await log.writer().send(batch)).toMatchObject({ sent: batch.length });
      },
      start(signal) {
        const what = { url: redis, prefix, point, signal, kafka: { brokers, topic } };
        return startProcess('test/faults/worker-that-dies.mjs', [JSON.stringify(what)]);
      },
      startHeir: () => void judges.start(),
    };
    return [point, scene, topic] as const;
  }
  // Workers find the rules in Redis: the process that is started here brings them.
  const [all] = await Promise.all([Promise.all(points.map(openScene)), fleet.start('recovery', 'alerts')]);
  const scenes = Object.fromEntries(all.map(([point, scene]) => [point, scene])) as Record<Point, Scene>;
  const log: WholeLog = wholeTopics(
    brokers,
    all.map(([, , topic]) => topic),
  );
  return { fleet, scenes, end: { url: redis, prefix, policy: POLICY, receiver, log } };
}

function unblock({ env }: Fleet, channels: readonly string[]): Promise<unknown> {
  const hand = { action: 'unblock', forMs: 0, actor: 'test', note: '' } as const;
  const { settings } = loadSettings({ env });
  return Promise.all(channels.map((channel) => changeByHand(settings, channel, hand)));
}

const FATAL = ['before-record', 'mid-batch', 'after-record', 'after-mark', 'after-announce', 'before-commit'] as const;

it.concurrent('kill -9 of an outcome worker on Kafka, at each of six points, loses no outcome, counts none twice, and a block decided just before is told once', async () => {
  const { fleet, scenes, end } = await openStage(FATAL);
  const blocked = FATAL.flatMap((point) => [`${point}/ALIPAY`, `${point}/sms/one`]);
  const signals = FATAL.map(async (point) => {
    const { publish, start, startHeir } = scenes[point];
    await publish({ window: '0111', ALIPAY: '01110000', 'sms/one': '01110000', healthy: '1' });
    const { signal } = await start('SIGKILL').exited;
    startHeir();
    return signal;
  });
  expect(await Promise.all(signals)).toEqual(FATAL.map(() => 'SIGKILL'));
  // What is missing, the verifier says better.
  await fleet.receiver.waitForRequests(blocked.length, TAKEN_OVER).catch(() => {});
  const then = await verifyAtEnd(end, 10_000);
  await unblock(fleet, blocked);
  await fleet.receiver.waitForRequests(3 * blocked.length, { timeoutMs: 20_000 }).catch(() => {});
  const { problems, channels, outcomes, blocks, alerts } = await verifyAtEnd(end, 5_000);
  expect([...then.problems, ...problems]).toEqual([]);
  expect({ channels, outcomes, blocks, alerts }).toEqual({ channels: 24, outcomes: 126, blocks: 12, alerts: 36 });
}, 150_000);

it.concurrent('an outcome worker on Kafka that was stopped beyond its session and goes on as a zombie records, tells and commits in vain', async () => {
  const { fleet, scenes, end } = await openStage(['before-record', 'after-record', 'before-commit'] as const);
  const { receiver } = fleet;
  const all = [scenes['before-record'], scenes['after-record'], scenes['before-commit']];
  // One failure short of a block: what counted twice would be one. In the middle a block is decided.
  const first = ['0001', '10000', '0001'];
  const stopping = all.map(async ({ publish, start, startHeir }, i) => {
    await publish({ ALIPAY: first[i]! });
    const zombie = start('SIGSTOP');
    await zombie.waitForLine(/^at /, TAKEN_OVER);
    startHeir();
    // What the zombie is about to commit is not the last: it would set its group back.
    await publish({ ALIPAY: '1' });
    return zombie;
  });
  const zombies = await Promise.all(stopping);
  // The heirs have read it all: the block was told by another than decided it, and has ended since.
  await receiver.waitForRequests(1, TAKEN_OVER).catch(() => {});
  const then = await verifyAtEnd(end, 20_000);
  await unblock(fleet, ['after-record/ALIPAY']);
  await receiver.waitForRequests(3, { timeoutMs: 20_000 });

  for (const zombie of zombies) zombie.kill('SIGCONT');
  // The last says so when the refusal of its commit comes first, or is told by its heartbeat that it is no member any more.
  const vain = [/^recorded late/, /^told late/, /a position could not be committed|kafkajs complains/];
  await Promise.all(zombies.map((zombie, i) => zombie.waitForLine(vain[i]!, { timeoutMs: 20_000 })));
  expect(await end.log!.problems()).toEqual([]);
  await Promise.all(all.map(({ publish }) => publish({ ALIPAY: '0' })));
  await receiver.waitForRequests(5, { timeoutMs: 20_000 }).catch(() => {});
  const { problems, repeated, channels, outcomes, blocks, alerts } = await verifyAtEnd(end, 10_000);
  expect([...then.problems, ...problems]).toEqual([]);
  // The feed alone has it a second time, under the same epoch.
  expect(repeated).toBeGreaterThan(0);
  expect({ channels, outcomes, blocks, alerts }).toEqual({ channels: 3, outcomes: 18, blocks: 3, alerts: 5 });
}, 150_000);

it.concurrent('a worker on Kafka that is told to end under load, while alerts are answered with 500, ends soon with what it did committed, and another goes on at once', async () => {
  const seed = seedOf('told to end');
  const [redis, brokers] = [sharedRedisUrl(), await sharedKafka()];
  const { topic, close } = await openKafkaLog(brokers, { partitions: 2 });
  releaseAtEnd(close);
  const env = {
    FUSELINE_TRANSPORT: 'kafka',
    FUSELINE_KAFKA_BROKERS: brokers,
    FUSELINE_KAFKA_TOPIC: topic,
    FUSELINE_KAFKA_GROUP: topic,
  };
  const { start, prefix, receiver } = await openFleet({ redis, env });
  receiver.answerAlways({ status: 500 });
  const publisher = createPublisher({ kafka: { brokers: brokers.split(','), topic } });
  releaseAtEnd(() => publisher.close());
  const worker = await start('outcomes', 'recovery', 'alerts');
  const running = startLoad(publisher, randomFrom(seed));
  await receiver.waitForRequests(3, { timeoutMs: 20_000 });
  const toldAt = performance.now();
  worker.kill('SIGTERM');
  expect(await worker.exited).toEqual({ code: 0, signal: null });
  expect(performance.now() - toldAt).toBeLessThan(5_000);
  // Nobody delivers right now: all that was refused must come again.
  receiver.requests.length = 0;
  receiver.answerAlways({ status: 200 });
  const heir = await start('outcomes', 'recovery', 'alerts');
  await until(() => metric(heir, 'fuseline_log_events_total{event="commits"}'), { what: 'it to go on' });
  expect(await running.stop()).toBe(true);
  const end = { url: redis, prefix, policy: SHORT, receiver, merged: true, log: wholeTopics(brokers, [topic]) };
  const verdict = await verifyAtEnd(end, 20_000);
  console.info('told to end:', JSON.stringify(verdict));
  expect(verdict.problems).toEqual([]);
  expect(verdict.blocks).toBeGreaterThan(2);
  expect(await metric(heir, 'fuseline_outcomes_total{disposition="duplicate"}')).toBe(0);
}, 90_000);
