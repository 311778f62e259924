import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Policy } from '../../src/domain/policy.js';
import { type Grouping, groupBatch } from '../../src/intake/group.js';
import { decodeRecord } from '../../src/transport/kafka/decode.js';
import type { LogEntry } from '../../src/transport/port.js';
import { decodeEntry } from '../../src/transport/redis-stream/decode.js';
import { policyOf } from '../channel/support.js';
import { damaged, valid, within, write } from '../support/outcome-texts.js';

const plainTexts = fc
  .tuple(fc.array(valid, { minLength: 1, maxLength: 8 }), fc.boolean())
  .map(([all, isOfOne]) =>
    Buffer.from(`[${all.map((each) => write(isOfOne ? { ...each, channel: 'ALIPAY' } : each)).join(',')}]`),
  );
const batches = fc.array(fc.oneof(damaged, plainTexts), { maxLength: 6 });

const policies = fc.constantFrom<Policy>(
  policyOf({}),
  policyOf({ mode: 'off' }),
  policyOf({ ignore: ['SYSTEM_*'] }),
  policyOf({ codes: { success: ['OK'], failure: ['超时'] } }),
  policyOf({ slow: { overMs: 1_000_000 } }),
  policyOf({ rateLimit: { minMs: 1_000, maxMs: 60_000 } }),
);

/** As a transport without a shorter way gives it. */
const longWay = ({ position, arrivalMs, outcomes, fault, raw }: LogEntry, of: LogEntry): LogEntry => ({
  ...{ position, arrivalMs, outcomes, raw: () => raw.call(of) },
  ...(fault === undefined ? {} : { fault }),
});

function sameBothWays(entries: readonly LogEntry[], grouping: Grouping): number {
  let short = 0;
  for (const entry of entries) if (entry.eachPlain?.(() => {})) short += 1;
  const quick = groupBatch({ partition: 'p', entries }, grouping);
  const slow = groupBatch({ partition: 'p', entries: entries.map((entry) => longWay(entry, entry)) }, grouping);
  expect(quick).toEqual(slow);
  expect([...quick.channels.keys()]).toEqual([...slow.channels.keys()]);
  return short;
}

it.each([
  [
    'records of Kafka',
    (bytes: Buffer, n: number) =>
      decodeRecord({
        key: null,
        attributes: 0,
        timestamp: '1700000000123',
        offset: String(n),
        headers: {},
        value: within(bytes, '[', ']'),
      }),
  ],
  [
    'entries of a stream',
    (bytes: Buffer, n: number) => decodeEntry(`1700000000123-${n}`, ['v', '1', 'outcomes', bytes.toString()]),
  ],
])('groups %s the same whether they are read the short way or the long one', (_what, entryOf) => {
  let [short, all] = [0, 0];
  fc.assert(
    fc.property(
      batches,
      fc.dictionary(fc.constantFrom('ALIPAY', '微信支付'), policies),
      policies,
      fc.boolean(),
      (texts, named, usual, admitsAll) => {
        const grouping: Grouping = {
          policyFor: (channel) => named[channel] ?? usual,
          admits: (channel) => admitsAll || channel !== 'sms-aliyun',
          logClockLeadMs: 250,
        };
        short += sameBothWays(texts.map(entryOf), grouping);
        all += texts.length;
      },
    ),
    { numRuns: 500 },
  );
  expect(short).toBeGreaterThan(all / 5);
  expect(short).toBeLessThan(all * 0.9);
});
