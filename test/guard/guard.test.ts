import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { OutcomeInput } from '../../src/domain/outcome.js';
import type { Admission, Admit } from '../../src/guard/admit.js';
import { ChannelBlockedError, ChannelTimeoutError } from '../../src/guard/errors.js';
import { createGuard } from '../../src/guard/guard.js';
import { didNotThrow } from '../../src/publisher/track.js';
import { createFakeFuseline } from '../../src/testing/index.js';
import { sleep } from '../support/wait.js';

const success = didNotThrow;
/** A third party that does not answer. */
const never = new Promise<never>(() => {});

/** A Fuseline in which `A` is blocked until a minute from its start. */
function withBlocked(rules: unknown = { mode: 'on' }) {
  const fuse = createFakeFuseline({ rules });
  fuse.block('A', 60_000);
  return fuse;
}

/** Rejections that nobody handled while the test ran, and the turn in which they would have been told. */
function unhandledRejections(): { seen: unknown[]; told(): Promise<unknown> } {
  const seen: unknown[] = [];
  const listener = (reason: unknown) => void seen.push(reason);
  process.on('unhandledRejection', listener);
  onTestFinished(() => void process.off('unhandledRejection', listener));
  return { seen, told: () => nextTurn() };
}

describe('guard', () => {
  it('calls a channel that is not blocked, gives back the very result, and publishes what success says of it', async () => {
    const fuse = createFakeFuseline();
    const answer = { code: 'FAIL' };
    const code = (end: { result: { code: string } } | { error: unknown }) =>
      'result' in end ? end.result.code : undefined;
    expect(await fuse.guard('A', async () => answer, { success: (a) => a.code === 'OK', code, source: 's' })).toBe(
      answer,
    );
    expect(await fuse.guard('A', () => 7, { success })).toBe(7);
    expect(fuse.published.map((one) => [one.channel, one.success, one.code, one.source])).toEqual([
      ['A', false, 'FAIL', 's'],
      ['A', true, undefined, undefined],
    ]);
  });

  it('rejects with what the call threw, untouched, at once or later', async () => {
    const fuse = createFakeFuseline();
    const error = Object.assign(new Error('down'), { code: 'ECONNREFUSED' });
    const atOnce = () => {
      throw error;
    };
    await expect(fuse.guard('A', atOnce, { success })).rejects.toBe(error);
    await expect(fuse.guard('A', async () => atOnce(), { success, timeout: 1_000 })).rejects.toBe(error);
    await expect(fuse.guard('A', () => Promise.reject(undefined), { success })).rejects.toBe(undefined);
    expect(fuse.published.map(({ code }) => code)).toEqual(['ECONNREFUSED', 'ECONNREFUSED', undefined]);
  });

  it('does not call a blocked channel, publishes nothing, and says until when it is blocked and why', async () => {
    const fuse = withBlocked();
    let called = 0;
    const refused = await fuse.guard('A', () => ++called, { success }).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(ChannelBlockedError);
    const { until, incident } = fuse.stateOf('A');
    expect(refused).toMatchObject({
      code: 'CHANNEL_BLOCKED',
      channel: 'A',
      state: 'open',
      reason: 'manual',
      until,
      incident,
    });
    expect((refused as Error).message).toBe(
      `channel A is blocked until ${new Date(until).toISOString()} (manual): the call was not made`,
    );
    expect([called, fuse.published.length]).toEqual([0, 0]);
    fuse.advance(60_000);
    expect(await fuse.guard('A', () => ++called, { success })).toBe(1);
  });

  it('asks the fallback instead, now or later, and tells it why: blocked, too late, or what the call threw', async () => {
    const fuse = withBlocked();
    const reasons: unknown[] = [];
    const fallback = async (reason: unknown) => {
      reasons.push(reason);
      await nextTurn();
      return 'from the cache';
    };
    const error = new Error('down');
    expect(await fuse.guard('A', () => 1, { success, fallback })).toBe('from the cache');
    expect(await fuse.guard('B', () => Promise.reject(error), { success, fallback })).toBe('from the cache');
    expect(await fuse.guard('B', () => never, { success, fallback, timeout: 5 })).toBe('from the cache');
    expect(reasons[0]).toBeInstanceOf(ChannelBlockedError);
    expect(reasons[1]).toBe(error);
    expect(reasons[2]).toBeInstanceOf(ChannelTimeoutError);
  });

  it('rejects with what the fallback throws; a fallback that rethrows the reason picks which it answers', async () => {
    const fuse = withBlocked();
    const onlyIfNotCalled = (reason: unknown) => {
      if (reason instanceof ChannelBlockedError) return 'other channel';
      throw reason;
    };
    const error = new Error('maybe charged');
    expect(await fuse.guard('A', () => 'paid', { success, fallback: onlyIfNotCalled })).toBe('other channel');
    await expect(fuse.guard('B', () => Promise.reject(error), { success, fallback: onlyIfNotCalled })).rejects.toBe(
      error,
    );
  });

  it('hands an answer that success finds bad to the caller, not to the fallback', async () => {
    const fuse = createFakeFuseline();
    const answer = { code: 'FAIL' };
    expect(await fuse.guard('A', () => answer, { success: () => false, fallback: () => 'no' })).toBe(answer);
    expect(fuse.published[0]).toMatchObject({ success: false });
  });

  it('2.05 tells a caller that broke off from a third party that was too slow', async () => {
    const fuse = createFakeFuseline({ rules: { mode: 'on' } });
    const abort = () => Promise.reject(new DOMException('aborted', 'AbortError'));
    for (let i = 0; i < 5; i += 1) await fuse.guard('A', abort, { success }).catch(() => {});
    expect(fuse.published.map(({ code }) => code)).toEqual(Array(5).fill('CLIENT_CANCELLED'));
    expect(fuse.isBlocked('A')).toBe(false);
    const slow = () => Promise.reject(new DOMException('too slow', 'TimeoutError'));
    for (let i = 0; i < 4; i += 1) await fuse.guard('A', slow, { success }).catch(() => {});
    expect(fuse.published.at(-1)!.code).toBe('TIMEOUT');
    expect(fuse.isBlocked('A')).toBe(true);
  });

  it('counts a call that a guard within it refused as nothing, for a guard as for track: nobody was called', async () => {
    const fuse = withBlocked();
    const inner = () => fuse.guard('A', () => 1, { success });
    await expect(fuse.guard('B', inner, { success })).rejects.toBeInstanceOf(ChannelBlockedError);
    await expect(fuse.track('B', inner, { success })).rejects.toBeInstanceOf(ChannelBlockedError);
    expect(fuse.published).toEqual([]);
  });

  it('lets a name through that no channel can have, as nothing can be known about it', async () => {
    const fuse = createFakeFuseline();
    expect(await fuse.guard('a{b', () => 1, { success })).toBe(1);
    expect(fuse.counts().dropped.invalid).toBe(1);
  });

  it('rejects at once, calls nothing and publishes nothing where there is no function, or no success', async () => {
    const fuse = createFakeFuseline();
    let calls = 0;
    const call = async () => {
      calls += 1;
    };
    await expect(fuse.guard('A', 5 as never, { success })).rejects.toThrow('guard wants a function to call, got 5');
    await expect(fuse.guard('A', call, undefined as never)).rejects.toThrow(/guard wants options.success/);
    await expect(fuse.guard('A', call, { success: true } as never)).rejects.toThrow(TypeError);
    expect(() => fuse.track('A', call, undefined as never)).toThrow(/track wants options.success/);
    expect([calls, fuse.published.length]).toEqual([0, 0]);
  });

  it('asks a thenable once only', async () => {
    const fuse = createFakeFuseline();
    let asked = 0;
    const query: PromiseLike<number> = {
      // biome-ignore lint/suspicious/noThenProperty: a lazy query, as query builders return it
      then(resolve) {
        asked += 1;
        return Promise.resolve(7).then(resolve);
      },
    };
    expect(await fuse.guard('A', () => query, { success })).toBe(7);
    expect(await fuse.guard('A', () => query, { success, timeout: 1_000 })).toBe(7);
    expect(asked).toBe(2);
  });
});

describe('the timeout of guard', () => {
  it('rejects in time, aborts the signal with the same error, and publishes one TIMEOUT with its duration', async () => {
    const fuse = createFakeFuseline();
    let signal: AbortSignal | undefined;
    let answer: (value: string) => void = () => {};
    const call = (guarded: { signal: AbortSignal }) => {
      signal = guarded.signal;
      return new Promise<string>((resolve) => {
        answer = resolve;
      });
    };
    const late = fuse.guard('A', call, { success, timeout: 40, code: () => 'MINE' });
    const error = await late.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ChannelTimeoutError);
    expect(error).toMatchObject({ name: 'TimeoutError', code: 'TIMEOUT', channel: 'A', timeoutMs: 40 });
    expect(signal!.aborted).toBe(true);
    expect(signal!.reason).toBe(error);
    answer('late');
    await nextTurn();
    expect(fuse.published).toHaveLength(1);
    expect(fuse.published[0]).toMatchObject({ success: false, code: 'TIMEOUT' });
    expect(fuse.published[0]!.durationMs).toBeGreaterThanOrEqual(38);
  });

  it('hands an aborted signal to a function that asks for it only after the time is over', async () => {
    const fuse = createFakeFuseline();
    let handed: { signal: AbortSignal } | undefined;
    const call = (guarded: { signal: AbortSignal }) => {
      handed = guarded;
      return never;
    };
    const error = await fuse.guard('A', call, { success, timeout: 5 }).catch((reason: unknown) => reason);
    expect(handed!.signal.aborted).toBe(true);
    expect(handed!.signal.reason).toBe(error);
  });

  it('stays a timeout when the function throws something of its own at the abort, and swallows what comes late', async () => {
    const fuse = createFakeFuseline();
    const { seen, told } = unhandledRejections();
    const breaksOff = ({ signal }: { signal: AbortSignal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(new DOMException('aborted', 'AbortError')));
      });
    await expect(fuse.guard('A', breaksOff, { success, timeout: 5 })).rejects.toBeInstanceOf(ChannelTimeoutError);
    let fail: (error: Error) => void = () => {};
    const throwsLate = () =>
      new Promise((_resolve, reject) => {
        fail = reject;
      });
    await expect(fuse.guard('A', throwsLate, { success, timeout: 5 })).rejects.toBeInstanceOf(ChannelTimeoutError);
    fail(new Error('late'));
    await told();
    expect(seen).toEqual([]);
    expect(fuse.published.map(({ code }) => code)).toEqual(['TIMEOUT', 'TIMEOUT']);
  });

  it('leaves no timer behind, however the call ended', async () => {
    const fuse = createFakeFuseline();
    const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
    const before = timers();
    const options = { success, timeout: 60_000 };
    const boom = () => {
      throw new Error('at once');
    };
    await fuse.guard('A', () => 1, options);
    await fuse.guard('A', async () => 1, options);
    await fuse.guard('A', boom, options).catch(() => {});
    await fuse.guard('A', async () => boom(), options).catch(() => {});
    expect(timers()).toBe(before);
  });

  it('gives an answer that is already there its turn, when the process itself was too busy to look', async () => {
    const fuse = createFakeFuseline();
    const answered = fuse.guard('A', () => nextTurn('in time'), { success, timeout: 10 });
    const end = performance.now() + 30;
    while (performance.now() < end);
    expect(await answered).toBe('in time');
    expect(fuse.published.map((one) => one.success)).toEqual([true]);
  });

  it.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 40])(
    'of %s ms does not end a call at once',
    async (timeout) => {
      const fuse = createFakeFuseline();
      expect(await fuse.guard('A', () => sleep(5).then(() => 1), { success, timeout })).toBe(1);
    },
  );
});

describe('admission', () => {
  const GROUP = {
    mode: 'on',
    channels: { A: { group: 'pay' }, B: { group: 'pay' }, 'sms-*': { group: 'sms' } },
    groups: { pay: { minVisible: 1 }, sms: { minVisible: 1 } },
  };
  /** Blocks as the rules do: a block by hand is never overruled by a floor. */
  function fail(fuse: ReturnType<typeof createFakeFuseline>, channel: string) {
    for (let i = 0; i < 4; i += 1) fuse.publish({ channel, success: false });
    expect(fuse.isBlocked(channel)).toBe(true);
  }

  it('lets the channel through that the floor shows, least bad of its group, while isBlocked goes on telling the state', async () => {
    const fuse = createFakeFuseline({ rules: GROUP });
    fail(fuse, 'A');
    expect(await fuse.admit('A')).toMatchObject({ admitted: false, why: 'blocked' });
    fuse.advance(1_000);
    fail(fuse, 'B');
    expect(await fuse.admit('A')).toMatchObject({ admitted: true, why: 'floor' });
    expect(await fuse.admit('B')).toMatchObject({ admitted: false, why: 'blocked' });
    expect(await fuse.guard('A', () => 1, { success })).toBe(1);
    await expect(fuse.guard('B', () => 1, { success })).rejects.toBeInstanceOf(ChannelBlockedError);
    expect(fuse.isBlocked('A')).toBe(true);
    expect(fuse.visible(['A', 'B'])).toEqual(['A']);
  });

  it('agrees with visible about the floor of a list that is not the whole group, if it is told the list', async () => {
    const fuse = createFakeFuseline({ rules: GROUP });
    fail(fuse, 'A');
    expect(fuse.visible(['A'])).toEqual(['A']);
    expect(await fuse.admit('A')).toMatchObject({ admitted: false });
    expect(await fuse.admit('A', { among: ['A'] })).toMatchObject({ admitted: true, why: 'floor' });
    expect(await fuse.guard('A', () => 1, { success, among: ['A'] })).toBe(1);
  });

  it('takes an among that is no list, and keys that name nobody, for none', async () => {
    const fuse = createFakeFuseline({ rules: GROUP });
    fail(fuse, 'A');
    fail(fuse, 'B');
    for (const among of ['A', 7, null]) {
      for (const key of [null, Symbol('u'), Object.create(null)])
        expect(await fuse.admit('A', { among, key } as never)).toMatchObject({ admitted: true, why: 'floor' });
    }
  });

  it('counts channels that a pattern puts into a group once they were asked about here', async () => {
    const fuse = createFakeFuseline({ rules: GROUP });
    fail(fuse, 'sms-a');
    expect(await fuse.admit('sms-a')).toMatchObject({ admitted: true, why: 'floor' });
    expect(fuse.isBlocked('sms-b')).toBe(false);
    expect(await fuse.admit('sms-a')).toMatchObject({ admitted: false });
    fuse.advance(1_000);
    fail(fuse, 'sms-b');
    expect(await fuse.admit('sms-a')).toMatchObject({ admitted: true, why: 'floor' });
  });

  it('never lets a channel through that was blocked by hand', async () => {
    const fuse = withBlocked({ ...GROUP, channels: { A: { group: 'pay' } } });
    expect(await fuse.admit('A')).toMatchObject({ admitted: false, why: 'blocked' });
  });

  /** A guard whose admission is a lent permit that takes a round trip. */
  function lending(admitted: boolean) {
    let given = 0;
    const published: OutcomeInput[] = [];
    const order: string[] = [];
    const permit: Admission = {
      admitted,
      why: 'half-open',
      release: () => {
        given += 1;
        order.push('released');
      },
    };
    const admit: Admit = () => sleep(1).then(() => permit);
    const publish = (outcome: OutcomeInput) => {
      published.push(outcome);
      order.push('published');
    };
    const guard = createGuard({ admit, publish, stateOf: createFakeFuseline().stateOf });
    return { guard, published, order, given: () => given };
  }

  it('waits for a permit that has to be fetched, and gives it back after the outcome is published, however the call ended', async () => {
    const { guard, published, order, given } = lending(true);
    expect(await guard('A', () => 1, { success })).toBe(1);
    expect(order).toEqual(['published', 'released']);
    await guard('A', () => Promise.reject(new Error('down')), { success }).catch(() => {});
    await guard('A', () => Promise.reject(new DOMException('x', 'AbortError')), { success, fallback: () => 2 });
    await guard('A', () => never, { success, timeout: 2 }).catch(() => {});
    expect(given()).toBe(4);
    expect(published.map(({ code }) => code)).toEqual([undefined, 'Error', 'CLIENT_CANCELLED', 'TIMEOUT']);
  });

  it('keeps a half-open channel from those who get no permit', async () => {
    const { guard, published } = lending(false);
    await expect(guard('A', () => 1, { success })).rejects.toBeInstanceOf(ChannelBlockedError);
    expect(published).toEqual([]);
  });

  it('is given back by track, which is handed it, also for an outcome that is ignored', async () => {
    const fuse = createFakeFuseline();
    let given = 0;
    const release = () => {
      given += 1;
    };
    const admission = { release };
    fuse.track('A', () => 1, { success, admission });
    await fuse
      .track('A', () => Promise.reject(new DOMException('x', 'AbortError')), { success, admission })
      .catch(() => {});
    const boom = () => {
      throw new Error('at once');
    };
    expect(() => fuse.track('A', boom, { success, admission })).toThrow('at once');
    expect(given).toBe(3);
  });
});
