import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Policy } from '../../src/domain/policy.js';
import { Evidence } from '../../src/domain/transition.js';
import { evidenceText, groupBatch } from '../../src/intake/group.js';
import { createIntake, type Intake } from '../../src/intake/intake.js';
import { Stats } from '../../src/intake/stats.js';
import { silent } from '../../src/observe/log.js';
import { createMetrics } from '../../src/observe/metrics.js';
import type { DeadLetter, LogBatch, LogReader } from '../../src/transport/port.js';
import { rulesFor, type Stand, stand } from '../announce/support.js';
import { FRESH_MS, policyOf } from '../channel/support.js';
import { startRedis } from '../support/redis.js';
import { sleep, until } from '../support/wait.js';

const POLICY = policyOf({ ignore: ['USER_*'] });

type Desk = { intake: Intake; letters: DeadLetter[]; counted(disposition: string): Promise<number>; errors: string[] };

/** An intake whose reader only takes dead letters: batches are handed in by the test. */
function deskOf(one: Stand, policy: Policy | (() => Policy) = POLICY): Desk {
  const letters: DeadLetter[] = [];
  const errors: string[] = [];
  const reader: LogReader = {
    run: async () => {},
    deadLetter: async (letter) => void letters.push(letter),
    progress: () => ({ owned: [], lag: 0, lastProgressAt: 0, counters: {} }),
  };
  const metrics = createMetrics();
  const intake = createIntake({
    ...{
      client: one.client,
      keys: one.keys,
      reader,
      announcer: one.announcer,
      stats: new Stats(),
      freshForMs: FRESH_MS,
    },
    ...{
      rules: rulesFor(typeof policy === 'function' ? policy : () => policy),
      logClockLeadMs: 0,
      maxChannels: 100,
      count: metrics.count,
    },
    log: { ...silent, error: (_facts: object, text?: string) => void errors.push(text ?? '') },
  });
  const counted = async (disposition: string) => {
    const { values } = await metrics.registry.getSingleMetric('fuseline_outcomes_total')!.get();
    return values.find(({ labels }) => labels.disposition === disposition)?.value ?? 0;
  };
  return { intake, letters, counted, errors };
}

let position = 0;
function batch(...outcomes: unknown[]): LogBatch {
  return {
    partition: 'test/log/0/0',
    entries: outcomes.map((outcome) => ({
      position: String(++position),
      arrivalMs: 0,
      outcomes: Array.isArray(outcome) ? outcome : [outcome],
      raw: () => JSON.stringify(outcome),
    })),
  };
}
const failure = (channel: string, more: object = {}) => ({ channel, success: false, ...more });
const forever = new AbortController().signal;
const window = ({ client, keys }: Stand, channel: string) => client.lrange(keys.channel(channel)[0], 0, -1);

/** As a transport delivers: what the handler refuses comes again after a while, until the signal. */
async function deliver(intake: Intake, one: LogBatch, signal: AbortSignal): Promise<void> {
  for (;;) {
    try {
      return await intake.handle(one);
    } catch (error) {
      if (signal.aborted) throw error;
      await sleep(20);
    }
  }
}

describe('intake', () => {
  it('2.05 leaves out calls that the client cancelled, in whatever case they are written, and the codes that the policy ignores', async () => {
    const one = await stand({ policy: POLICY });
    const { intake, counted } = deskOf(one);
    const codes = ['client_cancelled', 'CLIENT_CANCELLED', 'Client_Cancelled', 'USER_PIN', 'USER_'];
    await intake.handle(batch(...codes.flatMap((code) => [failure('C', { code }), failure('C', { code })])));
    expect(await window(one, 'C')).toEqual([]);
    expect(await counted('ignored')).toBe(10);
    await intake.handle(batch(failure('C', { code: 'TIMEOUT' }), failure('C')));
    expect(await window(one, 'C')).toEqual(['0', '0']);
  });

  it('2.01 takes an outcome of an unknown kind for a dead letter, not for a failure', async () => {
    const one = await stand({ policy: POLICY });
    const { intake, letters } = deskOf(one);
    const strange = ['degraded', 2, -1, null, {}, 'TRUE', 'ok', undefined, [true]];
    await intake.handle(
      batch(
        strange.map((success) => ({ channel: 'C', success })),
        failure('C'),
      ),
    );
    expect(await window(one, 'C')).toEqual(['0']);
    expect(letters.map(({ index }) => index)).toEqual(strange.map((_, i) => i));
    expect(letters[0]!.reason).toContain('success must be 0, 1, true or false, got "degraded"');
  });

  it('judges a batch by the version of the rules by which it was classified, though they change meanwhile', async () => {
    const one = await stand();
    const slow = { overMs: 100 };
    const versions = [policyOf({ slow }), policyOf({ size: 3 })];
    const { intake } = deskOf(one, () => versions.shift() ?? policyOf({ size: 3 }));
    await intake.handle(batch(...new Array(3).fill({ channel: 'C', success: true, durationMs: 101 })));
    // The third slow call among ten is the one too many; by the later version slow calls are none.
    expect(await one.client.exists(one.keys.blocked('C'))).toBe(1);
  });

  it('2.01 judges no channel in mode off, and keeps only the window of one that is observed', async () => {
    const one = await stand();
    const off = deskOf(one, policyOf({ mode: 'off' }));
    await off.intake.handle(batch(...new Array(100).fill(failure('C'))));
    expect(await one.client.exists(...one.keys.channel('C'))).toBe(0);
    expect(await off.counted('disabled')).toBe(100);
    const observing = deskOf(one, policyOf({ mode: 'observe' }));
    await observing.intake.handle(batch(...new Array(100).fill(failure('D'))));
    await observing.intake.run(forever);
    expect(await one.client.exists(one.keys.blocked('D'))).toBe(0);
    expect((await one.jobs('notify')).map(({ data }) => data.kind)).toEqual(['observed']);
  });

  it.each([
    ['health', 0],
    ['state', 2],
    ['fence', 3],
    ['outbox', 4],
    ['evidence', 5],
  ])(
    'sends the outcomes of a channel whose %s key has a foreign type to the dead letters, and judges the others',
    async (_key, index) => {
      const one = await stand({ policy: POLICY });
      const { intake, letters, errors } = deskOf(one, policyOf({}));
      await intake.handle(batch(failure('bad')));
      await one.client.del(one.keys.channel('bad')[index]!);
      await one.client.zadd(one.keys.channel('bad')[index]!, 1, 'foreign');
      await intake.handle(batch([failure('bad'), failure('good')], failure('bad'), failure('good'), failure('good')));
      expect(await one.client.exists(one.keys.blocked('good'))).toBe(1);
      expect(letters.length).toBe(2);
      expect(letters[0]!.reason).toMatch(/bad: WRONGTYPE/);
      expect(letters.map(({ position: at }) => Number(at))).toEqual([position - 3, position - 2]);
      expect(JSON.parse(letters[0]!.raw)).toMatchObject({ channel: 'bad', results: '0' });
      expect(errors.length).toBe(1);
      expect(intake.paused()).toBeUndefined();
    },
  );

  it('7.09 holds the partition while Redis is out of memory, says so, and judges the same batch once when it has room', async () => {
    const server = await startRedis();
    const one = await stand({ policy: POLICY, url: server.url });
    const { intake, letters } = deskOf(one);
    await intake.handle(batch(failure('C')));
    await one.client.config('SET', 'maxmemory', '1');
    let done = false;
    const handling = deliver(intake, batch(failure('C'), failure('C')), forever).then(() => {
      done = true;
    });
    expect(await until(() => intake.paused(), { what: 'the intake to say that it is held' })).toContain('OOM');
    expect(done).toBe(false);
    await one.client.config('SET', 'maxmemory', '0');
    await handling;
    await intake.run(forever);
    expect(intake.paused()).toBeUndefined();
    expect(letters).toEqual([]);
    const jobs = await one.jobs('notify');
    expect(jobs.map(({ data }) => [data.kind, data.recorded])).toEqual([['blocked', 3]]);
  });

  it('holds the partition, and says why, where a key that all channels share has a foreign type', async () => {
    const one = await stand({ policy: POLICY });
    const { intake, letters } = deskOf(one);
    await one.client.set(one.keys.agenda, 'foreign');
    const handling = deliver(intake, batch([failure('C'), failure('C'), failure('C')]), forever);
    expect(await until(() => intake.paused(), { what: 'the intake to say that it is held' })).toMatch(
      /agenda.*WRONGTYPE/,
    );
    await one.client.del(one.keys.agenda);
    await handling;
    await intake.run(forever);
    expect(letters).toEqual([]);
    expect((await one.jobs('notify')).map(({ data }) => data.kind)).toEqual(['blocked']);
  });

  it('announces what it has recorded at once, although another channel of the batch cannot be reached', async () => {
    const one = await stand({ policy: POLICY });
    let away = true;
    const client = new Proxy(one.client, {
      get(target, name) {
        const value = Reflect.get(target, name, target);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]) =>
          away && args.some((arg) => String(arg).includes('{away}'))
            ? Promise.reject(new Error('CLUSTERDOWN The cluster is down'))
            : value.apply(target, args);
      },
    });
    const { intake } = deskOf({ ...one, client });
    const handling = deliver(intake, batch([failure('away'), ...new Array(3).fill(failure('near'))]), forever);
    await until(() => one.jobs('notify'), {
      what: 'the block of the other channel to be told',
      accept: (jobs) => jobs.some(({ data }) => data.channel === 'near'),
    });
    expect(intake.paused()).toContain('CLUSTERDOWN');
    away = false;
    await handling;
    expect(await window(one, 'away')).toEqual(['0']);
  });

  it('ends a held batch on the signal, undone', async () => {
    const server = await startRedis();
    const one = await stand({ policy: POLICY, url: server.url });
    const { intake } = deskOf(one);
    await one.client.config('SET', 'maxmemory', '1');
    const stop = new AbortController();
    const handling = deliver(intake, batch(failure('C')), stop.signal);
    await until(() => intake.paused(), { what: 'the intake to be held' });
    stop.abort();
    await expect(handling).rejects.toThrow();
    // Whoever reads that partition now has its trouble; a worker that reads others is not held by it.
    expect(intake.paused(['another/partition'])).toBeUndefined();
    await one.client.config('SET', 'maxmemory', '0');
    expect(await window(one, 'C')).toEqual([]);
  });

  it('announces a block that a worker decided just before it died, when the batch is read again: once', async () => {
    const one = await stand({ policy: POLICY });
    const killed = { ...one.announcer, mark: () => Promise.reject(new Error('killed')) };
    const first = deskOf({ ...one, announcer: killed });
    const deciding = batch(failure('C'), failure('C'), failure('C'));
    const stop = new AbortController();
    const dying = deliver(first.intake, deciding, stop.signal);
    await until(() => first.intake.paused(), { what: 'the worker to hang between record and announce' });
    stop.abort();
    await expect(dying).rejects.toThrow();
    expect(await one.jobs('notify')).toEqual([]);
    const second = deskOf(one);
    for (let i = 0; i < 3; i += 1) await second.intake.handle(deciding);
    await second.intake.run(forever);
    expect((await one.jobs('notify')).map(({ data }) => [data.kind, data.recorded])).toEqual([['blocked', 3]]);
    expect(await second.counted('counted')).toBe(0);
  });

  it('takes a backlog of one channel in bites that hold Redis up for milliseconds, and ends as with one call', async () => {
    const server = await startRedis();
    const one = await stand({ policy: POLICY, url: server.url });
    const { intake, counted } = deskOf(one, policyOf({ size: 1_000, rate: 0 }));
    await one.client.config('SET', 'slowlog-log-slower-than', '400000');
    const entry = Array.from({ length: 1_000 }, (_, i) => ({
      ...failure('C', { durationMs: 5 }),
      success: i % 10 !== 0,
    }));
    await intake.handle(batch(...new Array(250).fill(entry)));
    expect(await counted('counted')).toBe(250_000);
    expect(await one.client.llen(one.keys.channel('C')[0])).toBe(1_000);
    expect(await one.client.slowlog('LEN')).toBe(0);
    const calls = /cmdstat_eval(?:sha)?:calls=(\d+)/g;
    const info = await one.client.info('commandstats');
    expect([...info.matchAll(calls)].reduce((sum, [, n]) => sum + Number(n), 0)).toBeGreaterThanOrEqual(13);
  });

  it('leaves room to no more channels than it may judge, counts the rest, and goes on with those it knows', async () => {
    const one = await stand({ policy: POLICY });
    const { intake, errors } = deskOf(one);
    await intake.handle(batch(Array.from({ length: 150 }, (_, i) => failure(`order-${i}`))));
    const health = await Promise.all(
      Array.from({ length: 150 }, (_, i) => one.client.exists(one.keys.channel(`order-${i}`)[0])),
    );
    expect(health.reduce((a, b) => a + b)).toBe(100);
    expect(errors.length).toBe(1);
    await intake.handle(batch(failure('order-7'), failure('order-149')));
    expect(await window(one, 'order-7')).toEqual(['0', '0']);
  });
});

describe('evidence', () => {
  it('is JSON of at most 256 bytes, whatever code and source are made of', () => {
    const text = fc.option(fc.string({ unit: 'binary', maxLength: 128 }), { nil: undefined });
    const hostile = fc.constantFrom(
      '"'.repeat(128),
      '\\'.repeat(128),
      '🦊'.repeat(64),
      '\u0000'.repeat(128),
      '\ud800'.repeat(128),
    );
    fc.assert(
      fc.property(
        fc.oneof(text, hostile),
        fc.oneof(text, hostile),
        fc.option(fc.nat(3_600_000), { nil: undefined }),
        (code, source, durationMs) => {
          const made = evidenceText({ code, source, durationMs }, 1_760_000_000_000);
          expect(Buffer.byteLength(made)).toBeLessThanOrEqual(256);
          const read = Evidence.parse(JSON.parse(made));
          expect(read.at).toBe(1_760_000_000_000);
          expect(read.code === undefined || read.code.isWellFormed()).toBe(true);
          if (code && code.length <= 16) expect(read.code).toBe(code.toWellFormed());
        },
      ),
      { numRuns: 1_000 },
    );
  });

  it('reaches the alert as it was sent, quotes and emoji included, and only the last 20', async () => {
    const one = await stand({ policy: POLICY });
    const { intake } = deskOf(one, policyOf({ size: 100, rate: 76 }));
    const codes = ['say "no"', '🦊🔥', "it's\\over", '</script>', '微信-超时', '\u2028', 'a\nb', '{"json":[]}'];
    const sent = Array.from({ length: 25 }, (_, i) => `${i}:${codes[i % codes.length]}`);
    const outcomes = sent.map((code) => failure('C', { code, source: 'host "1"' }));
    await intake.handle(batch(outcomes));
    await intake.run(forever);
    const [job] = await one.jobs('notify');
    expect(job!.data).toMatchObject({ kind: 'blocked', size: 100, recorded: 25, succeeded: 0, threshold: 7_600 });
    expect(job!.data.evidence.map(({ code }) => code)).toEqual(sent.slice(5));
    expect(job!.data.evidence.every(({ source }) => source === 'host "1"')).toBe(true);
    expect(await one.client.llen(one.keys.channel('C')[5])).toBe(20);
  });
});

describe('a batch of the log, sorted out', () => {
  const grouping = { policyFor: () => POLICY, admits: () => true, logClockLeadMs: 250 };

  it('keeps the order of each channel, and lets all of one entry share its position', () => {
    const log = batch(
      [failure('a'), { channel: 'b', success: true }, { channel: 'a', success: 1 }],
      failure('a'),
      failure('b'),
    );
    const { channels } = groupBatch(log, grouping);
    const [p1, p2, p3] = log.entries.map((entry) => entry.position);
    expect(channels.get('a')).toMatchObject({
      results: '010',
      entries: [
        [p1, -250, 2],
        [p2, -250, 1],
      ],
    });
    expect(channels.get('b')).toMatchObject({
      results: '10',
      entries: [
        [p1, -250, 1],
        [p3, -250, 1],
      ],
    });
  });

  it('meets two spellings of one name in one channel', () => {
    const { channels } = groupBatch(batch(failure('e\u0301'), failure('\u00e9')), grouping);
    expect([...channels.keys()]).toEqual(['\u00e9']);
  });

  it('makes a dead letter of an entry that could not be decoded, and of each outcome that breaks a rule, and keeps the rest', () => {
    const log = batch([failure('a'), failure('{a}'), 'text', failure('a', { durationMs: -1 })], failure('a'));
    const broken = { ...log.entries[1]!, fault: 'not JSON' };
    const { channels, letters } = groupBatch({ ...log, entries: [log.entries[0]!, broken] }, grouping);
    expect(channels.get('a')).toMatchObject({ results: '0' });
    expect(letters.map(({ index }) => index)).toEqual([1, 2, 3, -1]);
    expect(letters[3]!.reason).toBe('not JSON');
  });
});
