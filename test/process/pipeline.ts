import { expect } from 'vitest';
import { createPublisher } from '../../src/publisher/index.js';
import { createReader, type Reader } from '../../src/reader/index.js';
import { type HttpReceiver, startHttpReceiver } from '../support/http-receiver.js';
import { uniquePrefix } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';
import { until } from '../support/wait.js';
import { type Env, rulesFile, startWorker, untilReady, type Worker } from './workers.js';

export type Pipeline = {
  env: Env;
  workers: { outcomes: Worker; recovery: Worker; alerts: Worker };
  receiver: HttpReceiver;
  reader: Reader;
  /** Channels that the reader was told to be blocked, ever. */
  blocked: Set<string>;
  publish(channel: string, success: boolean, times?: number): Promise<void>;
};

/** Where Redis and, perhaps, Kafka are: the only settings that differ from one deployment to another. */
export type Urls = { redis: string; log?: string; queue?: string; kafka?: { brokers: string; topic: string } };

/** Of tests at the same time: blocks of two seconds are told late while a dozen processes start, so that no story begins before they have. */
const starts: Promise<unknown>[] = [];

/** Three worker processes, a service that publishes, another that reads, and somebody who is told. */
export async function startPipeline(urls: Urls, { block = '2s', hold = '2s' } = {}): Promise<Pipeline> {
  const receiver = await startHttpReceiver();
  const prefix = uniquePrefix();
  const env: Env = {
    FUSELINE_REDIS_URL: urls.redis,
    ...(urls.log === undefined ? {} : { FUSELINE_LOG_REDIS_URL: urls.log }),
    ...(urls.queue === undefined ? {} : { FUSELINE_QUEUE_REDIS_URL: urls.queue }),
    ...(urls.kafka === undefined
      ? {}
      : {
          FUSELINE_TRANSPORT: 'kafka',
          FUSELINE_KAFKA_BROKERS: urls.kafka.brokers,
          FUSELINE_KAFKA_TOPIC: urls.kafka.topic,
          FUSELINE_KAFKA_GROUP: urls.kafka.topic,
        }),
    FUSELINE_PREFIX: prefix,
    FUSELINE_ALLOW_PRIVATE_RECEIVERS: 'true',
    FUSELINE_RULES: await rulesFile({
      version: 1,
      mode: 'on',
      defaults: { window: 5, successRate: 70, block, hold },
      receivers: { ops: { type: 'webhook', url: `${receiver.url}/hook` } },
      routes: [{ to: ['ops'] }],
    }),
  };
  const workers = {
    outcomes: startWorker('outcomes', env),
    recovery: startWorker('recovery', env),
    alerts: startWorker('alerts', env),
  };
  const publisher = createPublisher(
    urls.kafka === undefined
      ? { url: urls.log ?? urls.redis, prefix }
      : { kafka: { brokers: urls.kafka.brokers.split(','), topic: urls.kafka.topic } },
  );
  releaseAtEnd(() => publisher.close());
  const reader = createReader({ url: urls.redis, prefix });
  releaseAtEnd(() => reader.close());
  const blocked = new Set<string>();
  reader.on('transition', ({ kind, channel }) => void (kind === 'blocked' && blocked.add(channel)));
  const ready = Promise.all(Object.values(workers).map(untilReady));
  starts.push(ready);
  await ready;
  await Promise.allSettled(starts);
  return {
    env,
    workers,
    receiver,
    reader,
    blocked,
    async publish(channel, success, times = 1) {
      for (let i = 0; i < times; i += 1) publisher.publish({ channel, success, code: success ? undefined : 'TIMEOUT' });
      expect(await publisher.flush()).toBe(true);
    },
  };
}

export type AlertBody = { id: string; type: string; channel: string; epoch: number; incident: string };

export function alertsOf(receiver: HttpReceiver, channel: string): AlertBody[] {
  return receiver.requests.map(({ body }) => JSON.parse(body) as AlertBody).filter((one) => one.channel === channel);
}

/** Publishes failures and sees the whole story of an incident: blocked, recovered, held; each told once, in this order. */
export async function seeIncident({ receiver, reader, publish }: Pipeline, channel: string): Promise<void> {
  const kinds = () => alertsOf(receiver, channel).map(({ type }) => type);
  expect(reader.isBlocked(channel)).toBe(false);
  await publish(channel, false, 2);
  await until(() => reader.isBlocked(channel), { what: 'the reader to keep the channel out', timeoutMs: 15_000 });
  await until(kinds, { what: 'the alert of the block', accept: (all) => all.length >= 1, timeoutMs: 15_000 });
  await until(() => !reader.isBlocked(channel), { what: 'the channel to come back', timeoutMs: 15_000 });
  await until(kinds, { what: 'recovery and hold', accept: (all) => all.length >= 3, timeoutMs: 15_000 });
  expect(kinds()).toEqual(['channel.blocked', 'channel.recovered', 'channel.held']);
  const told = alertsOf(receiver, channel);
  expect(new Set(told.map(({ id }) => id)).size).toBe(3);
  expect(new Set(told.map(({ incident }) => incident)).size).toBe(1);
}
