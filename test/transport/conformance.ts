import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Outcome, parseOutcome } from '../../src/domain/outcome.js';
import { shardOf } from '../../src/domain/shard.js';
import type {
  BatchHandler,
  DeadLetter,
  LogEntry,
  LogReader,
  LogWriter,
  QueuedOutcome,
} from '../../src/transport/port.js';
import { until } from '../support/wait.js';

/** What the suite needs of a transport: a log of its own per test. */
export type LogUnderTest = {
  partitions: number;
  /** Where a channel's outcomes go; default: as on Redis Streams. */
  partitionOf?(channel: string): number;
  /** How soon another reader has the partitions of one that ended, ms; default 1,000. */
  handOverMs?: number;
  writer(): LogWriter;
  reader(): LogReader;
  /** As a program in another language would: one outcome, in whatever form such programs use. */
  appendForeign(partition: number, outcome: Record<string, string>): Promise<void>;
  deadLetters(): Promise<DeadLetter[]>;
  close(): Promise<void>;
};

type Running = { stop(): Promise<void>; reader: LogReader };

/** Every transport runs this suite; see `src/transport/port.ts` for what it promises. */
export function describeTransport(name: string, open: () => Promise<LogUnderTest>): void {
  describe(`${name} keeps the promises of a transport`, () => {
    let log: LogUnderTest;
    let running: Running[];

    beforeEach(async () => {
      log = await open();
      running = [];
    });
    afterEach(async () => {
      await Promise.all(running.map((one) => one.stop()));
      await log.close();
    });

    function start(handler: BatchHandler): Running {
      const reader = log.reader();
      const stop = new AbortController();
      const ended = reader.run(handler, stop.signal);
      const one = {
        reader,
        async stop() {
          stop.abort();
          await ended;
        },
      };
      running.push(one);
      return one;
    }

    const send = (outcomes: Outcome[]) => log.writer().send(outcomes.map(queued));

    it('hands over every outcome once, in order within its channel, with positions that rise', async () => {
      const channels = ['ALIPAY', '微信支付', 'stripe/eu-1', 'sms-aliyun', 'WECHAT'];
      const seen = collector();
      start(seen.handler);
      for (let n = 0; n < 40; n += 1) {
        await send(channels.map((channel) => ({ channel, success: n % 3 > 0, durationMs: n })));
      }
      await until(() => seen.outcomes.length >= 200, { what: 'all outcomes' });
      for (const channel of channels) {
        expect(seen.of(channel).map(({ durationMs }) => durationMs)).toEqual(Array.from({ length: 40 }, (_, n) => n));
      }
      for (const positions of seen.positions.values()) {
        const sorted = [...positions].sort(byPosition);
        expect(positions).toEqual(sorted);
        expect(new Set(positions).size).toBe(positions.length);
      }
    });

    it('keeps all outcomes of one channel in one partition, many of them in one entry', async () => {
      const seen = collector();
      start(seen.handler);
      await send(Array.from({ length: 50 }, (_, n) => ({ channel: 'ALIPAY', success: true, durationMs: n })));
      await until(() => seen.outcomes.length === 50, { what: 'fifty outcomes' });
      expect([...seen.positions.keys()]).toHaveLength(1);
      expect([...seen.positions.values()].flat()).toHaveLength(1);
    });

    it('says when the log took an entry, and how long the outcome had waited before', async () => {
      const seen = collector();
      start(seen.handler);
      const before = Date.now();
      await log
        .writer()
        .send([{ ...queued({ channel: 'ALIPAY', success: true }), queuedAt: performance.now() - 1_500 }]);
      await until(() => seen.entries.length === 1, { what: 'the outcome' });
      expect(seen.entries[0]!.arrivalMs).toBeGreaterThanOrEqual(before - 1_000);
      expect(seen.entries[0]!.arrivalMs).toBeLessThanOrEqual(Date.now() + 1_000);
      expect(seen.outcomes[0]!.agoMs).toBeGreaterThanOrEqual(1_500);
      expect(seen.outcomes[0]!.agoMs).toBeLessThan(5_000);
    });

    it('hands a rejected batch over again before any later entry of its partition, while others go on', async () => {
      const seen = collector();
      let refusals = 0;
      let otherDuringRefusal = 0;
      start(async (batch, signal) => {
        const first = (batch.entries[0]!.outcomes[0] as Outcome).channel;
        if (first === 'ALIPAY' && refusals < 4) {
          refusals += 1;
          throw new Error('the test refuses');
        }
        if (first !== 'ALIPAY' && refusals < 4) otherDuringRefusal += 1;
        await seen.handler(batch, signal);
      });
      await send([{ channel: 'ALIPAY', success: true, durationMs: 1 }]);
      await until(() => refusals > 0, { what: 'a first refusal' });
      for (let n = 2; n <= 9; n += 1) await send([{ channel: 'ALIPAY', success: true, durationMs: n }]);
      await send([{ channel: otherPartition(log), success: true }]);
      await until(() => seen.of('ALIPAY').length >= 9, { what: 'all of the refused partition' });
      expect(seen.of('ALIPAY').map(({ durationMs }) => durationMs)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
      expect(otherDuringRefusal).toBeGreaterThan(0);
    });

    it('goes on after what was done when a reader comes back', async () => {
      const first = collector();
      const one = start(first.handler);
      await send([{ channel: 'ALIPAY', success: false, durationMs: 1 }]);
      await until(() => first.outcomes.length === 1, { what: 'the first outcome' });
      await one.stop();
      await send([{ channel: 'ALIPAY', success: false, durationMs: 2 }]);
      const second = collector();
      start(second.handler);
      await until(() => second.outcomes.length > 0, { what: 'the outcome sent meanwhile' });
      expect(second.outcomes.map(({ durationMs }) => durationMs)).toEqual([2]);
    });

    it('reads again what was handed over but not done', async () => {
      let refused = 0;
      const one = start(async () => {
        refused += 1;
        throw new Error('the test refuses');
      });
      await send([{ channel: 'ALIPAY', success: false, durationMs: 7 }]);
      await until(() => refused > 0, { what: 'a refusal' });
      await one.stop();
      const second = collector();
      start(second.handler);
      await until(() => second.outcomes.length > 0, { what: 'the outcome to come again' });
      expect(second.outcomes.map(({ durationMs }) => durationMs)).toEqual([7]);
    });

    it('ends only when nothing is in flight, and what was in flight counts as done', async () => {
      let entered = false;
      let finish = () => {};
      const held = new Promise<void>((resolve) => {
        finish = resolve;
      });
      const one = start(async () => {
        entered = true;
        await held;
      });
      await send([{ channel: 'ALIPAY', success: true, durationMs: 1 }]);
      await until(() => entered, { what: 'the handler to be entered' });
      let ended = false;
      const stopping = one.stop().then(() => {
        ended = true;
      });
      await new Promise((resolve) => setImmediate(resolve));
      expect(ended).toBe(false);
      finish();
      await stopping;
      await send([{ channel: 'ALIPAY', success: true, durationMs: 2 }]);
      const second = collector();
      start(second.handler);
      await until(() => second.outcomes.length > 0, { what: 'the outcome sent after the stop' });
      expect(second.outcomes.map(({ durationMs }) => durationMs)).toEqual([2]);
    });

    it('shares the partitions between two readers, and leaves them to the other when one ends', async () => {
      const seen = collector();
      const one = start(seen.handler);
      const two = start(seen.handler);
      const half = log.partitions / 2;
      await until(() => one.reader.progress().owned.length === half && two.reader.progress().owned.length === half, {
        what: 'half of the partitions each',
        timeoutMs: 15_000,
      });
      await one.stop();
      await until(() => two.reader.progress().owned.length === log.partitions, {
        what: 'all partitions',
        timeoutMs: log.handOverMs ?? 1_000,
      });
      await send(['ALIPAY', 'WECHAT', 'sms', 'c1', 'c2', 'c3'].map((channel) => ({ channel, success: true })));
      await until(() => seen.outcomes.length === 6, { what: 'outcomes of every partition' });
    });

    it('keeps dead letters: once resolved, others see them', async () => {
      const reader = log.reader();
      const letter = {
        reason: 'channel must not be empty',
        partition: 'p/0/1',
        position: '5-0',
        index: 3,
        raw: '{"channel":""}',
      };
      await reader.deadLetter(letter);
      expect(await log.deadLetters()).toEqual([letter]);
    });

    it('reads outcomes written by programs in any language', async () => {
      const seen = collector();
      start(seen.handler);
      await log.appendForeign(0, { channel: 'ALIPAY', success: '0', durationMs: '120', code: 'TIMEOUT', extra: 'x' });
      await log.appendForeign(log.partitions - 1, { channel: '微信支付', success: 'true' });
      await until(() => seen.outcomes.length === 2, { what: 'two foreign outcomes' });
      expect(seen.of('ALIPAY')[0]).toMatchObject({ success: false, durationMs: 120, code: 'TIMEOUT' });
      expect(seen.of('微信支付')[0]).toMatchObject({ success: true });
    });

    it('tells its lag: what waits while the handler holds, and nothing at the end', async () => {
      let hold = true;
      const one = start(async (_batch, signal) => {
        if (hold && !signal.aborted) throw new Error('the test holds');
      });
      await until(() => one.reader.progress().owned.length === log.partitions, { what: 'all partitions' });
      await send([{ channel: 'ALIPAY', success: true }]);
      await send([{ channel: 'ALIPAY', success: true }]);
      await until(() => one.reader.progress().lag === 2, { what: 'a lag of 2' });
      hold = false;
      await until(() => one.reader.progress().lag === 0, { what: 'a lag of 0' });
      expect(one.reader.progress().counters.commits).toBeGreaterThan(0);
    });
  });
}

/** A handler that keeps what it gets, decoded as the worker would. */
export function collector() {
  const entries: LogEntry[] = [];
  const outcomes: Outcome[] = [];
  const positions = new Map<string, string[]>();
  const handler: BatchHandler = async ({ partition, entries: batch }) => {
    for (const entry of batch) {
      entries.push(entry);
      positions.set(partition, [...(positions.get(partition) ?? []), entry.position]);
      for (const raw of entry.outcomes) {
        const parsed = parseOutcome(raw);
        if (parsed.ok) outcomes.push(parsed.outcome);
      }
    }
  };
  return {
    handler,
    entries,
    outcomes,
    positions,
    of: (channel: string) => outcomes.filter((one) => one.channel === channel),
  };
}

export function queued(outcome: Outcome): QueuedOutcome {
  return { outcome, queuedAt: performance.now(), bytes: 100 };
}

/** A channel that does not share ALIPAY's partition. */
function otherPartition({ partitions, partitionOf = (channel) => shardOf(channel, partitions) }: LogUnderTest): string {
  const mine = partitionOf('ALIPAY');
  return Array.from({ length: 100 }, (_, n) => `other-${n}`).find((channel) => partitionOf(channel) !== mine)!;
}

function byPosition(a: string, b: string): number {
  const [aMajor = 0, aMinor = 0] = a.split('-').map(Number);
  const [bMajor = 0, bMinor = 0] = b.split('-').map(Number);
  return aMajor - bMajor || aMinor - bMinor;
}
