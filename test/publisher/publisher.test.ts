import { describe, expect, it } from 'vitest';
import type { OutcomeInput } from '../../src/domain/outcome.js';
import { type DropReason, publishTo } from '../../src/publisher/publisher.js';
import { createMemoryLog } from '../../src/transport/memory.js';
import type { LogWriter, QueuedOutcome } from '../../src/transport/port.js';
import { until } from '../support/wait.js';
import { collector } from '../transport/conformance.js';

const good = (n = 0): OutcomeInput => ({ channel: 'ALIPAY', success: true, durationMs: n });

/** A log that is away until `open` is called. */
function awayLog() {
  let isOpen = false;
  const sent: QueuedOutcome[] = [];
  let calls = 0;
  const writer: LogWriter = {
    async send(batch) {
      calls += 1;
      if (!isOpen) return { sent: 0, unsent: batch, unknown: 0, error: new Error('away') };
      sent.push(...batch);
      return { sent: batch.length, unsent: [], unknown: 0 };
    },
    async close() {},
  };
  return {
    writer,
    sent,
    calls: () => calls,
    open: () => {
      isOpen = true;
    },
  };
}

describe('publish', () => {
  it('brings outcomes into the log within moments, without being asked to', async () => {
    const log = createMemoryLog();
    const seen = collector();
    const stop = new AbortController();
    const reading = log.reader().run(seen.handler, stop.signal);
    const publisher = publishTo({ writer: log.writer(), source: 'checkout-1' });
    publisher.publish({
      channel: 'ALIPAY',
      success: false,
      durationMs: 812,
      retryAfterMs: 20_000,
      code: 'SYSTEM_ERROR',
      at: 1_700_000_000_000,
    });
    await until(() => seen.outcomes.length === 1, { what: 'the outcome' });
    expect(seen.outcomes[0]).toMatchObject({
      channel: 'ALIPAY',
      success: false,
      durationMs: 812,
      retryAfterMs: 20_000,
      code: 'SYSTEM_ERROR',
      at: 1_700_000_000_000,
      source: 'checkout-1',
    });
    stop.abort();
    await Promise.all([reading, publisher.close()]);
  });

  it('never throws, whatever it is given, and tells which rule was broken', () => {
    const told: [unknown, DropReason, string][] = [];
    const { writer } = awayLog();
    const publisher = publishTo({ writer, onDrop: (...args) => told.push(args) });
    const trap = new Proxy(
      {},
      {
        get: () => {
          throw new Error('trap');
        },
      },
    );
    const hostile: unknown[] = [
      undefined,
      null,
      7,
      'ALIPAY',
      Symbol('x'),
      [],
      () => {},
      trap,
      Object.create(null),
      { channel: '', success: true },
      { channel: 'a{b}', success: true },
      { channel: '\ud800', success: true },
      { channel: 'ALIPAY' },
      { channel: 'ALIPAY', success: 'maybe' },
      { channel: 'ALIPAY', success: true, durationMs: -1 },
      { channel: 'ALIPAY', success: true, durationMs: Number.NaN },
      { channel: 'ALIPAY', success: true, durationMs: 1e9 },
      { channel: 'ALIPAY', success: true, at: Number.NaN },
      { channel: 'ALIPAY', success: true, at: Number.POSITIVE_INFINITY },
      { channel: 'x'.repeat(10_000_000), success: true },
    ];
    for (const one of hostile) publisher.publish(one as OutcomeInput);
    expect(publisher.counts().dropped.invalid).toBe(hostile.length);
    expect(publisher.counts().published).toBe(0);
    expect(told).toHaveLength(hostile.length);
    expect(told.every(([, reason, detail]) => reason === 'invalid' && detail.length > 0 && detail.length < 300)).toBe(
      true,
    );
    expect(told[9]![2]).toContain('channel must not be empty');
  });

  it('keeps what an outcome was when it was published, though the caller changes the object afterwards', async () => {
    const away = awayLog();
    away.open();
    const publisher = publishTo({ writer: away.writer });
    const outcome = good(1);
    publisher.publish(outcome);
    outcome.channel = 'a{b}';
    outcome.durationMs = 99;
    await publisher.flush();
    expect(away.sent.map((one) => one.outcome)).toEqual([{ channel: 'ALIPAY', success: true, durationMs: 1 }]);
  });

  it('sends at once when 500 wait, one send at a time', async () => {
    const sizes: number[] = [];
    let inFlight = 0;
    let most = 0;
    const writer: LogWriter = {
      async send(batch) {
        inFlight += 1;
        most = Math.max(most, inFlight);
        sizes.push(batch.length);
        await new Promise((resolve) => setImmediate(resolve));
        inFlight -= 1;
        return { sent: batch.length, unsent: [], unknown: 0 };
      },
      async close() {},
    };
    const publisher = publishTo({ writer, batchMs: 60_000 });
    for (let n = 0; n < 1_200; n += 1) publisher.publish(good(n));
    await until(() => sizes.length === 2, { what: 'two full batches' });
    expect(sizes).toEqual([500, 500]);
    await publisher.flush();
    expect(sizes).toEqual([500, 500, 200]);
    expect(most).toBe(1);
  });

  it.each([
    ['a failure', { channel: 'ALIPAY', success: false, durationMs: 3 }],
    ['a wish to wait', { channel: 'ALIPAY', success: true, durationMs: 3, retryAfterMs: 1_000 }],
  ])('lets good outcomes wait for longer, until %s takes them along', async (_what, urgent) => {
    const away = awayLog();
    away.open();
    const publisher = publishTo({ writer: away.writer, batchMs: 1, quietBatchMs: 60_000 });
    for (let round = 1; round <= 2; round += 1) {
      publisher.publish(good(1));
      await new Promise((resolve) => setTimeout(resolve, 20));
      expect(publisher.counts()).toMatchObject({ sent: 3 * (round - 1), buffered: 1 });
      publisher.publish(urgent);
      publisher.publish(good(2));
      await until(() => away.sent.length === 3 * round, { what: 'all three' });
      expect(away.sent.slice(-3).map(({ outcome }) => outcome.durationMs)).toEqual([1, 3, 2]);
    }
  });

  it('sends on without anything else going on in the process, and takes an answer that makes no sense for unknown', async () => {
    const answers: unknown[] = [undefined, 'sent', { sent: 500 }];
    const writer: LogWriter = {
      send: async (batch) =>
        answers.length > 0 ? (answers.shift() as never) : { sent: batch.length, unsent: [], unknown: 0 },
      async close() {},
    };
    const publisher = publishTo({ writer });
    for (let n = 0; n < 5_000; n += 1) publisher.publish(good(n));
    const begun = performance.now();
    expect(await publisher.flush()).toBe(true);
    expect(publisher.counts()).toMatchObject({ sent: 3_500, unknown: 1_500, buffered: 0 });
    expect(performance.now() - begun).toBeLessThan(5_000);
  });

  it('takes times that are none for now, and waits that are none for the usual ones', async () => {
    const away = awayLog();
    away.open();
    const publisher = publishTo({ writer: away.writer, batchMs: Number.NaN, quietBatchMs: Number.POSITIVE_INFINITY });
    for (const nowMs of [Number.NaN, undefined, Number.POSITIVE_INFINITY])
      publisher.publishAt(good(1), nowMs as number);
    publisher.publish({ channel: 'ALIPAY', success: false });
    await until(() => away.sent.length === 4, { what: 'all to be sent by themselves' });
    for (const { queuedAt } of away.sent) expect(performance.now() - queuedAt).toBeLessThan(1_000);
  });

  it('does not let a flush go around the back-off', async () => {
    const away = awayLog();
    const publisher = publishTo({ writer: away.writer });
    publisher.publish(good(1));
    await until(() => away.calls() === 2, { what: 'a second try' });
    for (let i = 0; i < 200; i += 1) await publisher.flush({ timeoutMs: 1 });
    expect(away.calls()).toBeLessThan(15);
  });

  it('drops the oldest when the log is away for too long, and says so', async () => {
    const away = awayLog();
    const dropped: number[] = [];
    const publisher = publishTo({
      writer: away.writer,
      maxBuffered: 100,
      onDrop: (outcome, reason) => {
        if (reason === 'buffer-full') dropped.push((outcome as { durationMs: number }).durationMs);
        throw new Error('a hook that throws changes nothing');
      },
    });
    for (let n = 0; n < 250; n += 1) publisher.publish(good(n));
    await until(() => away.calls() > 1, { what: 'a second try' });
    expect(publisher.counts()).toMatchObject({ published: 250, buffered: 100, sent: 0 });
    expect(publisher.lastError()?.message).toBe('away');
    away.open();
    expect(await publisher.flush()).toBe(true);
    expect(dropped).toEqual(Array.from({ length: 150 }, (_, n) => n));
    expect(away.sent.map(({ outcome }) => outcome.durationMs)).toEqual(Array.from({ length: 100 }, (_, n) => n + 150));
    const counts = publisher.counts();
    expect(counts).toMatchObject({ sent: 100, buffered: 0 });
    expect(counts.published).toBe(
      counts.sent + counts.unknown + counts.dropped['buffer-full'] + counts.dropped.shutdown,
    );
    expect(publisher.lastError()).toBeUndefined();
  });

  it('keeps the order when what was on its way comes back after more was published', async () => {
    const sent: number[] = [];
    let refuse = () => {};
    const refused = new Promise<void>((resolve) => {
      refuse = resolve;
    });
    let calls = 0;
    const writer: LogWriter = {
      async send(batch) {
        calls += 1;
        if (calls === 1) {
          await refused;
          return { sent: 0, unsent: batch, unknown: 0, error: new Error('away') };
        }
        sent.push(...batch.map(({ outcome }) => outcome.durationMs!));
        return { sent: batch.length, unsent: [], unknown: 0 };
      },
      async close() {},
    };
    const publisher = publishTo({ writer });
    publisher.publish(good(1));
    publisher.publish(good(2));
    await until(() => calls === 1, { what: 'the first send' });
    publisher.publish(good(3));
    refuse();
    await publisher.flush();
    expect(sent).toEqual([1, 2, 3]);
  });

  it('bounds what waits by its size too', () => {
    const { writer } = awayLog();
    const publisher = publishTo({ writer, maxBufferedBytes: 100_000 });
    for (let n = 0; n < 1_000; n += 1)
      publisher.publish({ ...good(n), code: 'x'.repeat(128), source: 'y'.repeat(128) });
    const { buffered, dropped } = publisher.counts();
    expect(buffered).toBeLessThan(200);
    expect(buffered).toBeGreaterThan(50);
    expect(dropped['buffer-full']).toBe(1_000 - buffered);
  });

  it('does not hammer a log that is away, however much is published', async () => {
    const away = awayLog();
    const publisher = publishTo({ writer: away.writer });
    const until300 = performance.now() + 300;
    while (performance.now() < until300) {
      for (let n = 0; n < 600; n += 1) publisher.publish(good(n));
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(away.calls()).toBeGreaterThan(1);
    expect(away.calls()).toBeLessThan(15);
  });

  it('never sends again what may be in the log', async () => {
    let calls = 0;
    const writer: LogWriter = {
      async send(batch) {
        calls += 1;
        return { sent: 0, unsent: [], unknown: batch.length, error: new Error('no answer') };
      },
      async close() {},
    };
    const publisher = publishTo({ writer });
    publisher.publish(good());
    expect(await publisher.flush()).toBe(true);
    expect(publisher.counts()).toMatchObject({ published: 1, unknown: 1, sent: 0, buffered: 0 });
    expect(calls).toBe(1);
  });
});

describe('flush and close', () => {
  it('tells by false that the time was too short, and keeps what waits', async () => {
    const { writer } = awayLog();
    const publisher = publishTo({ writer });
    publisher.publish(good());
    expect(await publisher.flush({ timeoutMs: 50 })).toBe(false);
    expect(publisher.counts().buffered).toBe(1);
  });

  it('waits for what was published before, not for what comes meanwhile', async () => {
    const away = awayLog();
    away.open();
    const publisher = publishTo({ writer: away.writer, batchSize: 10 });
    for (let n = 0; n < 30; n += 1) publisher.publish(good(n));
    let flushed = false;
    const flushing = publisher.flush().then((all) => {
      flushed = all;
    });
    while (!flushed) {
      publisher.publish(good());
      await new Promise((resolve) => setImmediate(resolve));
    }
    await flushing;
    expect(publisher.counts().sent).toBeGreaterThanOrEqual(30);
  });

  it('sends what waits, drops what cannot be sent, and refuses what comes later', async () => {
    const away = awayLog();
    const reasons: DropReason[] = [];
    const publisher = publishTo({ writer: away.writer, onDrop: (_outcome, reason) => reasons.push(reason) });
    publisher.publish(good());
    const closing = publisher.close({ timeoutMs: 30 });
    publisher.publish(good());
    await closing;
    await publisher.close();
    expect(reasons).toEqual(['closed', 'shutdown']);
    expect(publisher.counts()).toMatchObject({ published: 1, buffered: 0, dropped: { closed: 1, shutdown: 1 } });
  });
});
