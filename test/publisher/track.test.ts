import { describe, expect, it } from 'vitest';
import type { OutcomeInput } from '../../src/domain/outcome.js';
import { didNotThrow, SUCCESS_CHECK_THREW, track } from '../../src/publisher/track.js';

function recorder() {
  const told: OutcomeInput[] = [];
  return { told, publish: (outcome: OutcomeInput) => void told.push(outcome) };
}

describe('track', () => {
  it('gives back the very result of a function, and publishes what success says of it', async () => {
    const { told, publish } = recorder();
    const body = { code: 'SUCCESS' };
    const success = (result: { code: string }) => result.code === 'SUCCESS';
    expect(track(publish, 'ALIPAY', () => body, { success })).toBe(body);
    expect(await track(publish, 'ALIPAY', async () => ({ code: 'FAIL' }), { success, source: 'checkout' })).toEqual({
      code: 'FAIL',
    });
    expect(told.map(({ success: s }) => s)).toEqual([true, false]);
    expect(told[1]).toMatchObject({ channel: 'ALIPAY', source: 'checkout' });
  });

  it("counts an answer with HTTP 200 and a failure in its body as a failure, with the third party's code", async () => {
    const { told, publish } = recorder();
    const call = async () => ({ status: 200, body: { code: 'ACQ.SYSTEM_ERROR' } });
    await track(publish, 'ALIPAY', call, {
      success: ({ body }) => body.code === 'SUCCESS',
      code: ({ result }) => result?.body.code,
    });
    expect(told[0]).toMatchObject({ success: false, code: 'ACQ.SYSTEM_ERROR' });
  });

  it('throws what the call threw, untouched, at once or later', async () => {
    const { told, publish } = recorder();
    const error = Object.assign(new Error('down'), { code: 'ECONNREFUSED' });
    expect(() =>
      track(
        publish,
        'A',
        () => {
          throw error;
        },
        { success: didNotThrow },
      ),
    ).toThrow(error);
    await expect(track(publish, 'A', () => Promise.reject(error), { success: didNotThrow })).rejects.toBe(error);
    await expect(track(publish, 'A', () => Promise.reject(undefined), { success: didNotThrow })).rejects.toBe(
      undefined,
    );
    expect(told.map(({ success, code }) => [success, code])).toEqual([
      [false, 'ECONNREFUSED'],
      [false, 'ECONNREFUSED'],
      [false, undefined],
    ]);
  });

  it('asks a thenable once only, as some run again each time they are asked', async () => {
    const { told, publish } = recorder();
    let asked = 0;
    const query: PromiseLike<number> = {
      // biome-ignore lint/suspicious/noThenProperty: a lazy query, as query builders return it
      then(resolve) {
        asked += 1;
        return Promise.resolve(7).then(resolve);
      },
    };
    expect(await track(publish, 'A', () => query, { success: (rows) => rows === 7 })).toBe(7);
    expect(asked).toBe(1);
    expect(told).toHaveLength(1);
    expect(told[0]!.success).toBe(true);
  });

  it('2.05 tells a caller that broke off from a third party that was too slow', async () => {
    const { told, publish } = recorder();
    const fail = (error: unknown) =>
      track(publish, 'A', () => Promise.reject(error), { success: didNotThrow, code: () => 'MINE' }).catch(() => {});
    await fail(new DOMException('aborted', 'AbortError'));
    await fail(new DOMException('too slow', 'TimeoutError'));
    await fail(
      Object.assign(new Error('aborted', { cause: new DOMException('too slow', 'TimeoutError') }), {
        name: 'AbortError',
      }),
    );
    await fail(new Error('other'));
    expect(told.map(({ code }) => code)).toEqual(['CLIENT_CANCELLED', 'TIMEOUT', 'TIMEOUT', 'MINE']);
  });

  it('passes on how long the third party asked to wait, whether the call came back or threw; what is no time says nothing', async () => {
    const { told, publish } = recorder();
    const success = didNotThrow;
    type Answer = { after: unknown };
    const retryAfterMs = (end: { result: Answer } | { error: unknown }) =>
      ('result' in end ? end.result.after : (end.error as Answer).after) as number;
    for (const after of [20_000, 1e12, 0, -1, Number.NaN, '20', undefined]) {
      await track(publish, 'A', async () => ({ after }), { success, retryAfterMs });
      await track(publish, 'A', () => Promise.reject({ after }), { success, retryAfterMs }).catch(() => {});
    }
    await track(publish, 'A', () => Promise.reject(null), { success, retryAfterMs }).catch(() => {});
    const asked = told.map(({ retryAfterMs }) => retryAfterMs).filter((ms) => ms !== undefined);
    expect(asked).toEqual([20_000, 20_000, 86_400_000, 86_400_000]);
    expect(told.length).toBe(15);
  });

  it('counts a success check that throws, or that is async by mistake, as a failure with a code of its own', async () => {
    const { told, publish } = recorder();
    const broken = () => {
      throw new Error('cannot read');
    };
    expect(await track(publish, 'A', async () => null, { success: broken })).toBe(null);
    const asyncCheck = (async () => false) as unknown as () => boolean;
    expect(track(publish, 'A', () => 1, { success: asyncCheck })).toBe(1);
    expect(told.map(({ success, code }) => [success, code])).toEqual([
      [false, SUCCESS_CHECK_THREW],
      [false, SUCCESS_CHECK_THREW],
    ]);
  });

  it('measures how long the call took', async () => {
    const { told, publish } = recorder();
    await track(publish, 'A', () => new Promise((resolve) => setTimeout(resolve, 60)), { success: didNotThrow });
    expect(told[0]!.durationMs).toBeGreaterThanOrEqual(55);
    expect(told[0]!.durationMs).toBeLessThan(5_000);
  });

  it('survives errors that cannot be looked at', async () => {
    const { told, publish } = recorder();
    const hostile = new Proxy(
      {},
      {
        get: () => {
          throw new Error('trap');
        },
      },
    );
    await expect(
      track(publish, 'A', () => new Promise((_resolve, reject) => reject(hostile)), { success: didNotThrow }),
    ).rejects.toBe(hostile);
    expect(told[0]).toMatchObject({ success: false, code: undefined });
  });

  it('counts every attempt inside a retry and every business call outside, so that inside blocks sooner', async () => {
    const inside = recorder();
    const outside = recorder();
    const down = async () => {
      throw new Error('down');
    };
    const retry = async (call: () => Promise<void>) => {
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await call();
        } catch (error) {
          if (attempt === 3) throw error;
        }
      }
    };
    await retry(() => track(inside.publish, 'A', down, { success: didNotThrow })).catch(() => {});
    await track(outside.publish, 'A', () => retry(down), { success: didNotThrow }).catch(() => {});
    expect(inside.told).toHaveLength(3);
    expect(outside.told).toHaveLength(1);
  });
});
