import { expect } from 'vitest';
import { createIntake, type Intake } from '../../src/intake/intake.js';
import { Stats } from '../../src/intake/stats.js';
import { silent } from '../../src/observe/log.js';
import { createMetrics } from '../../src/observe/metrics.js';
import type { KafkaReaderOptions } from '../../src/transport/kafka/reader.js';
import type { BatchHandler, LogReader } from '../../src/transport/port.js';
import { rulesFor, stand } from '../announce/support.js';
import { FRESH_MS, policyOf } from '../channel/support.js';
import { releaseAtEnd } from '../support/releasers.js';
import { until } from '../support/wait.js';
import type { KafkaLog } from './kafka-log.js';

/** A window that holds all that a test sends, and that no failure blocks: its list is every outcome since the first failure, in order. */
export const EVERYTHING = policyOf({ size: 1_000, rate: 0 });

export type Judge = {
  reader: LogReader;
  /** Lines that were warned. */
  warnings: string[];
  stop(): Promise<void>;
};

export type Judges = {
  start(options?: Partial<KafkaReaderOptions>, around?: (handler: BatchHandler) => BatchHandler): Judge;
  /** A channel's window in Redis, oldest first, as text of `0` and `1`. */
  window(channel: string): Promise<string>;
  /** Waits until each of these channels has exactly this window, and nothing is left to read. */
  untilWindows(channels: readonly string[], outcomes: readonly boolean[], running: readonly Judge[]): Promise<void>;
};

/** Outcome workers of one fleet, in this process: real readers and intakes on the log and on Redis. */
export async function judgesOf(log: KafkaLog, policy = EVERYTHING, url?: string): Promise<Judges> {
  const one = await stand({ policy, keys: log.keys, ...(url === undefined ? {} : { url }) });
  const window = async (channel: string) => (await one.client.lrange(one.keys.channel(channel)[0], 0, -1)).join('');
  return {
    start(options = {}, around = (handler) => handler) {
      const warnings: string[] = [];
      const line = (_facts: object, message: string) => void warnings.push(message);
      const reader = log.reader({ log: { info() {}, warn: line }, ...options });
      const wrapped: LogReader = {
        run: (handler, signal) => reader.run(around(handler), signal),
        deadLetter: (letter) => reader.deadLetter(letter),
        progress: () => reader.progress(),
      };
      const intake: Intake = createIntake({
        ...{ client: one.client, keys: one.keys, reader: wrapped, announcer: one.announcer, stats: new Stats() },
        ...{ rules: rulesFor(() => policy), freshForMs: FRESH_MS, logClockLeadMs: 0, maxChannels: 1_000 },
        ...{ log: silent, count: createMetrics().count },
      });
      const end = new AbortController();
      const ended = intake.run(end.signal);
      const judge = {
        reader,
        warnings,
        async stop() {
          end.abort();
          await ended;
        },
      };
      releaseAtEnd(judge.stop);
      return judge;
    },
    window,
    async untilWindows(channels, outcomes, running) {
      const want = channels.map(() => text(outcomes));
      await until(async () => (await Promise.all(channels.map(window))).join() === want.join(), {
        what: 'the windows to hold what was sent',
        timeoutMs: 30_000,
      }).catch(() => {});
      await until(() => running.every(({ reader }) => reader.progress().lag === 0), { what: 'nothing to be left' });
      expect(await Promise.all(channels.map(window))).toEqual(want);
    },
  };
}

/** Outcomes that can be told apart by their pattern: of so many, each third is a failure, the first one too. */
export function pattern(from: number, to: number): boolean[] {
  return Array.from({ length: to - from }, (_, i) => (from + i) % 3 !== 0 && (from + i) % 7 !== 0);
}

export const text = (outcomes: readonly boolean[]): string => outcomes.map((success) => (success ? '1' : '0')).join('');

/** Waits until nothing is left to read in the partitions that these own together. */
export async function untilRead(judges: readonly Judge[], partitions: number, timeoutMs = 20_000): Promise<void> {
  await until(
    () => {
      const all = judges.map(({ reader }) => reader.progress());
      return all.reduce((sum, { owned }) => sum + owned.length, 0) === partitions && all.every(({ lag }) => lag === 0);
    },
    { what: 'everything to be read', timeoutMs },
  );
}
