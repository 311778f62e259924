import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { decodeRecord } from '../../src/transport/kafka/decode.js';
import { RAW_MAX } from '../../src/transport/port.js';
import { sharedKafka } from '../support/kafka.js';
import { releaseAtEnd } from '../support/releasers.js';
import { until } from '../support/wait.js';
import { judgesOf } from './judge.js';
import { openKafkaLog } from './kafka-log.js';

beforeAll(sharedKafka, 120_000);

const message = (value: Buffer | string | null) =>
  decodeRecord({
    ...{ key: null, attributes: 0, timestamp: '1700000000123', offset: '7', headers: {} },
    value: typeof value === 'string' ? Buffer.from(value) : value,
  });
const json = (value: unknown) => message(JSON.stringify(value));

describe('a record', () => {
  it('holds one outcome as an object, or several of one channel in an array', () => {
    expect(json({ channel: 'A', success: false })).toMatchObject({
      position: '7',
      arrivalMs: 1_700_000_000_123,
      outcomes: [{ channel: 'A', success: false }],
    });
    expect(
      json([
        { channel: 'A', success: 0 },
        { channel: 'A', success: 1 },
      ]).outcomes,
    ).toHaveLength(2);
    // Two spellings of one name.
    expect(
      json([
        { channel: 'caf\u00e9', success: 0 },
        { channel: 'cafe\u0301', success: 1 },
      ]).fault,
    ).toBeUndefined();
    expect(json([])).toMatchObject({ outcomes: [] });
  });

  it('tells of each record what is its own, in whatever order records are asked', () => {
    const [bad, good] = [message('{bad'), json({ channel: 'A', success: true })];
    expect([bad.fault, good.outcomes]).toEqual([expect.stringMatching(/no JSON/), [{ channel: 'A', success: true }]]);
    expect([bad.outcomes, good.fault, bad.raw(), good.raw()]).toEqual([[], undefined, '{bad', expect.any(String)]);
  });

  it.each([
    ['4.07 no value', null, /needs a value.*got none/],
    ['4.07 an empty value', '', /needs a value.*got 0 bytes/],
    ['4.08 no JSON', 'not json', /is no JSON/],
    ['4.08 more behind the JSON', '{"channel":"A","success":true}x', /is no JSON/],
    ['4.08 a byte order mark', '\ufeff{"channel":"A","success":true}', /is no JSON/],
    ['4.08 UTF-16', Buffer.from('{"channel":"A"}', 'utf16le'), /is no JSON/],
    ['4.08 compressed by its sender', gzipSync('{"channel":"A","success":true}'), /is no JSON/],
    ['4.08 the byte 0xFF', Buffer.from([0xff]), /is no JSON/],
    ['a text', '"A"', /must be a JSON object or an array, got string/],
    ['null as JSON', 'null', /must be a JSON object or an array, got null/],
    ['nested beyond reason', `${'['.repeat(500_000)}`, /is no JSON/],
    ['more than 1 MiB', `{"channel":"A","success":true,"code":"${'x'.repeat(1_048_576)}"}`, /1048576 bytes at most/],
    ['more than 1,000 outcomes', JSON.stringify(Array(1_001).fill({ channel: 'A', success: 1 })), /1000 outcomes/],
    [
      'the outcomes of several channels',
      JSON.stringify([
        { channel: 'A', success: 1 },
        { channel: 'B', success: 1 },
      ]),
      /one channel, which is also the record's key; got "A" and "B"/,
    ],
  ])('is a fault as a whole when it has %s', (_what, value, reason) => {
    const entry = message(value);
    expect(entry.outcomes).toEqual([]);
    expect(entry.fault).toMatch(reason);
    expect(entry.raw().length).toBeLessThanOrEqual(RAW_MAX);
  });
});

it('4.03 4.07 4.08 what cannot be read goes to the dead letters with its place and reason, and the next is read', async () => {
  const log = await openKafkaLog(await sharedKafka(), { partitions: 1 });
  releaseAtEnd(log.close);
  const judges = await judgesOf(log);
  const judge = judges.start();
  for (let n = 0; n < 5; n += 1) await log.append('{"channel":"A","success":false}', { key: 'A' });
  const bad = ['{bad', null, '', '{"channel":"A","success":"maybe"}', '[{"channel":"A","success":1},7]'];
  for (const value of bad) await log.append(value, { key: 'A' });
  const sentAt = performance.now();
  // Without a key: order may be lost, the outcome is not.
  await log.append('{"channel":"A","success":false}');
  await until(async () => (await judges.window('A')) === '0000010', { what: 'what is good' });
  expect(performance.now() - sentAt).toBeLessThan(5_000);
  await until(() => judge.reader.progress().counters.dead_letters === 5, { what: 'the dead letters' });
  const letters = await log.deadLetters();
  const name = `kafka/${log.topic}/0/1`;
  expect(letters.map(({ partition, position, index }) => [partition, position, index])).toEqual([
    [name, '5', -1],
    [name, '6', -1],
    [name, '7', -1],
    [name, '8', 0],
    [name, '9', 1],
  ]);
  expect(letters.map(({ reason }) => reason)).toEqual([
    expect.stringContaining('is no JSON'),
    expect.stringContaining('got none'),
    expect.stringContaining('got 0 bytes'),
    expect.stringContaining('success must be 0, 1, true or false, got "maybe"'),
    expect.any(String),
  ]);
  expect(letters[0]!.raw).toBe('{bad');
});
