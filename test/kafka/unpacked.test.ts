import { gzipSync } from 'node:zlib';
import kafkajs from 'kafkajs';
import { compressFrameSync } from 'lz4-napi';
import { describe, expect, it } from 'vitest';
import { beginFetch, decompressors, lastCodecFault, registerCodecs } from '../../src/transport/kafka/codecs.js';
import {
  countRecords,
  lz4Size,
  snappyBlocks,
  snappySize,
  UNPACKED_MAX_BYTES,
  zstdSize,
} from '../../src/transport/kafka/unpacked.js';

const MIB = 1_048_576;
const TOO_LARGE = /it becomes more than the 67108864 bytes that a batch may have unpacked/;

/** A zstd frame without its size, of blocks that each stand for 128 KiB of one byte. */
function zstdBomb(blocks: number): Buffer {
  const header = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, 0x38]);
  const block = (isLast: boolean) => {
    const bytes = Buffer.alloc(4, 'x');
    bytes.writeUIntLE((131_072 << 3) | (1 << 1) | Number(isLast), 0, 3);
    return bytes;
  };
  return Buffer.concat([header, ...Array.from({ length: blocks }, (_, n) => block(n === blocks - 1))]);
}

/** Says that it unpacks to so many bytes; each of its steps repeats the first byte 64 times. */
function snappyBomb(bytes: number): Buffer {
  const size: number[] = [];
  for (let left = bytes; ; left = Math.floor(left / 128)) {
    size.push(left < 128 ? left : (left % 128) + 128);
    if (left < 128) break;
  }
  const copies = Buffer.alloc(Math.floor((bytes - 1) / 64) * 3);
  for (let at = 0; at < copies.length; at += 3) copies.set([(63 << 2) | 2, 1, 0], at);
  return Buffer.concat([Buffer.from([...size, 0, 0x78]), copies]);
}

const xerial = (...blocks: Buffer[]) =>
  Buffer.concat([
    Buffer.from('\x82SNAPPY\0\0\0\0\x01\0\0\0\x01', 'latin1'),
    ...blocks.flatMap((block) => {
      const size = Buffer.alloc(4);
      size.writeUInt32BE(block.length);
      return [size, block];
    }),
  ]);

const zeros = (bytes: number) => Buffer.alloc(bytes);
const unpack = (number: number, packed: Buffer) => decompressors[number]!.decompress(packed);

describe('a batch that is small and becomes huge', () => {
  it.each([
    ['gzip', 1, () => gzipSync(zeros(65 * MIB))],
    ['snappy, as one block', 2, () => snappyBomb(65 * MIB)],
    ['snappy, as Java frames it', 2, () => xerial(...Array<Buffer>(3).fill(snappyBomb(25 * MIB)))],
    ['lz4', 3, () => compressFrameSync(zeros(65 * MIB))],
    ['zstd', 4, () => zstdBomb(520)],
    ['zstd, and says so', 4, () => Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 0x7f, 1, 0, 0])],
    ['zstd, with a window of 2 GiB', 4, () => Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, 0xa8, 1, 0, 0])],
    ['many frames of zstd', 4, () => Buffer.concat(Array<Buffer>(9).fill(zstdBomb(64)))],
  ])('is refused before it is one: %s', async (_what, number, bomb) => {
    const packed = bomb();
    const before = process.memoryUsage().arrayBuffers;
    // Its length alone: nobody wants to see all of it in a message.
    await expect(unpack(number, packed).then(({ length }) => length)).rejects.toThrow(TOO_LARGE);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(number === 1 ? 70 * MIB : MIB);
  });

  it.each([
    ['gzip', 1, () => gzipSync(zeros(20 * MIB)), 20 * MIB],
    ['snappy', 2, () => snappyBomb(5 * MIB + 1), 5 * MIB + 1],
    ['snappy, as Java frames it', 2, () => xerial(snappyBomb(1 + 64), snappyBomb(1 + 640)), 706],
    ['lz4', 3, () => compressFrameSync(zeros(20 * MIB), { contentChecksum: true, blockChecksums: true }), 20 * MIB],
    ['zstd', 4, () => zstdBomb(80), 10 * MIB],
  ])('is read whole while it stays below: %s', async (_what, number, packed, bytes) => {
    expect((await unpack(number, packed())).length).toBe(bytes);
  });

  it('is never taken for smaller than it is', () => {
    for (const bytes of [0, 1, 100, 70_000, 300_000]) {
      const some = Buffer.from(Array.from({ length: bytes }, (_, n) => (n * n) % 251));
      expect(lz4Size(compressFrameSync(some))).toBeGreaterThanOrEqual(bytes);
    }
    expect(snappySize(snappyBlocks(snappyBomb(1 + 6_400)))).toBe(6_401);
    expect(zstdSize(zstdBomb(10))).toBeGreaterThanOrEqual(10 * 131_072);
  });

  it.each([
    ['lz4', 3],
    ['zstd', 4],
  ])('is refused when it is no %s at all, or ends early', async (_name, number) => {
    await expect(unpack(number, Buffer.from('{"channel":"A"}'))).rejects.toThrow(/it is no/);
    const whole = number === 3 ? compressFrameSync(Buffer.from('x'.repeat(1_000))) : zstdBomb(3);
    for (const length of [1, 4, 5, 8, whole.length - 5]) {
      await expect(unpack(number, Buffer.from(whole.subarray(0, length)))).rejects.toThrow();
    }
  });
});

/** Records of `bytes` each, as they lie in a batch. */
const records = (count: number, bytes: number) => {
  const one = Buffer.alloc(bytes + 1);
  one[0] = bytes * 2;
  return Buffer.concat(Array<Buffer>(count).fill(one));
};

describe('the records of a batch', () => {
  it('are counted, and too many refused, because kafkajs would fail over them', () => {
    expect(countRecords(records(3, 7))).toBe(3);
    expect(countRecords(records(100_000, 7))).toBe(100_000);
    expect(() => countRecords(records(100_001, 7))).toThrow('it holds more than 100000 records');
  });

  it('are unpacked up to a bound for each answer of a broker; what does not fit comes with the next one', async () => {
    registerCodecs();
    const gzip = (
      kafkajs.CompressionCodecs as unknown as Record<number, () => { decompress(b: Buffer): Promise<Buffer> }>
    )[1]!();
    const packed = gzipSync(records(100_000, 7));
    const at = lastCodecFault()?.at;
    beginFetch();
    const read = async () => {
      for (let batches = 0; batches < 20; batches += 1) {
        const bytes = await gzip.decompress(packed).catch((error: Error) => error.name);
        if (bytes === 'KafkaJSPartialMessageError') return batches;
      }
      return 20;
    };
    const batches = await read();
    expect(batches).toBeGreaterThan(1);
    expect(batches * 100_000 * 264).toBeLessThan(3 * UNPACKED_MAX_BYTES);
    beginFetch();
    expect(await read()).toBe(batches);
    expect(lastCodecFault()?.at).toBe(at);
  });
});
