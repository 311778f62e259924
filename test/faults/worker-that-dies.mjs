// An outcome worker built of the production parts that gets a signal, SIGKILL or SIGSTOP, at a named point of the first batch in which a
// block may be decided. One argument, JSON: `{ url, prefix, point, signal, kafka? }`, where `kafka` is `{ brokers, topic }` (the group has the
// topic's name) and stands for Redis Streams if left out. Points: before-record, mid-batch, after-record, after-mark, after-announce,
// before-commit. One that goes on after SIGSTOP says so, and when that batch is recorded and handled.
import { createAnnouncer } from '../../dist/src/announce.js';
import { createIntake } from '../../dist/src/intake/intake.js';
import { Stats } from '../../dist/src/intake/stats.js';
import { silent } from '../../dist/src/observe/log.js';
import { uncounted } from '../../dist/src/observe/metrics.js';
import { openQueues } from '../../dist/src/queue/queues.js';
import { openRedis, whenReady } from '../../dist/src/redis/client.js';
import { Keys } from '../../dist/src/redis/keys.js';
import { loadScript } from '../../dist/src/redis/script.js';
import { createLiveRules } from '../../dist/src/rules/live.js';
import { createKafkaReader } from '../../dist/src/transport/kafka/reader.js';
import { createRedisStreamReader } from '../../dist/src/transport/redis-stream/reader.js';

const { url, prefix, point, signal = 'SIGKILL', kafka } = JSON.parse(process.argv[2]);
const keys = new Keys(prefix);
const client = openRedis(url, 'commands');
const queueClient = openRedis(url, 'queue-producer');
await Promise.all([whenReady(client), whenReady(queueClient)]);

let stopped = false;
function onStep(step) {
  if (step !== point || stopped) return;
  stopped = true;
  say(`at ${point}`);
  process.kill(process.pid, signal);
  say('goes on');
}

/** To a pipe: written before it returns. */
function say(line) {
  process.stdout.write(`${line}\n`);
}

/** Every call of record.lua goes through here; the first that decides something is the one that counts. */
const recordSha = loadScript('record').sha;
const watched = new Proxy(client, {
  get(target, name) {
    const value = Reflect.get(target, name);
    if (name !== 'evalsha') return typeof value === 'function' ? value.bind(target) : value;
    return async (sha, ...rest) => {
      const mayDecide =
        sha === recordSha && rest.some((one) => typeof one === 'string' && /^[012]*000[012]*$/.test(one));
      if (mayDecide) onStep('before-record');
      const isLate = stopped && sha === recordSha;
      const reply = await target.evalsha(sha, ...rest);
      if (isLate) say('recorded late');
      if (sha === recordSha && Array.isArray(reply) && reply[0] > 0) onStep('after-record');
      else if (sha === recordSha) onStep('mid-batch');
      return reply;
    };
  },
});

const queues = openQueues({ client: queueClient, prefix: keys.queues });
const plain = createAnnouncer({ client, keys, queues, log: silent, count: uncounted });
const announcer = {
  ...plain,
  async mark(channels) {
    const scores = await plain.mark(channels);
    onStep('after-mark');
    return scores;
  },
  async announce(...args) {
    const isLate = stopped;
    const told = await plain.announce(...args);
    if (isLate) say('told late');
    onStep('after-announce');
    return told;
  },
};
const common = { client, keys, worker: `dies-${process.pid}`, rewindMs: 300_000 };
const log =
  kafka === undefined
    ? createRedisStreamReader({ ...common, openClient: () => openRedis(url, 'blocking'), leaseMs: 1_000 })
    : createKafkaReader({
        ...{ ...common, brokers: kafka.brokers.split(','), topic: kafka.topic, group: kafka.topic },
        // The shortest that brokers take by default.
        sessionMs: 6_000,
        log: { info() {}, warn: (_facts, message) => say(message) },
      });
let decided = false;
const reader = {
  ...{ deadLetter: (letter) => log.deadLetter(letter), progress: () => log.progress() },
  run: (handler, signal) =>
    log.run(async (batch, signalOfBatch) => {
      decided ||= batch.entries.some(({ outcomes }) => outcomes.some((one) => String(one.success) === 'false'));
      await handler(batch, signalOfBatch);
      if (decided) onStep('before-commit');
    }, signal),
};
const rules = await createLiveRules({ client, keys, logger: silent });
await rules.whenLoaded(new AbortController().signal);
const shared = { client: watched, keys, reader, rules, announcer, stats: new Stats(), log: silent, count: uncounted };
const intake = createIntake({ ...shared, freshForMs: 300_000, logClockLeadMs: 0, maxChannels: 100 });
say('reading');
await intake.run(new AbortController().signal);
