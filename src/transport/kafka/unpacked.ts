/**
 * How much a compressed batch becomes, read from its headers before anything is allocated: a broker looks at compressed bytes only, and a
 * mebibyte of zstd can unpack to gigabytes. Bounds are never too low; where a format does not tell, its blocks count as full.
 */

/** Most bytes of one batch, unpacked. Outcomes compress to a tenth or less of their size, so a batch of 1 MiB stays far below. */
export const UNPACKED_MAX_BYTES = 64 * 1_048_576;
/** Most records of one batch. kafkajs hands them over as the arguments of one call, and 125,000 are too many for the stack. */
export const BATCH_MAX_RECORDS = 100_000;

const LZ4_MAGIC = 0x184d2204;
/** A byte of LZ4 can stand for 255 at most. */
const LZ4_RATIO = 255;
const ZSTD_MAGIC = 0xfd2fb528;
const ZSTD_SKIPPABLE = 0x184d2a50;
const ZSTD_BLOCK = 131_072;
/** How Java's clients frame snappy: this, two versions of four bytes each, then chunks behind their lengths. */
const XERIAL_MAGIC = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0]);
const XERIAL_HEADER_BYTES = 16;

/** @throws {RangeError} it is more than a batch may become */
export function allow(bytes: number): void {
  if (bytes > UNPACKED_MAX_BYTES)
    throw new RangeError(`it becomes more than the ${UNPACKED_MAX_BYTES} bytes that a batch may have unpacked`);
}

/** Upper bound of what LZ4 frames unpack to. @throws they are none, or end early */
export function lz4Size(packed: Buffer): number {
  let size = 0;
  for (let at = 0; at < packed.length; ) {
    if (packed.readUInt32LE(at) !== LZ4_MAGIC) throw new Error('it is no LZ4 frame');
    const flags = packed.readUInt8(at + 4);
    const blockMax = 1 << (8 + 2 * ((packed.readUInt8(at + 5) >> 4) & 7));
    at += 7 + (flags & 8 ? 8 : 0) + (flags & 1 ? 4 : 0);
    for (let head = packed.readUInt32LE(at); head !== 0; head = packed.readUInt32LE(at)) {
      const bytes = head & 0x7fffffff;
      size += head > 0x7fffffff ? bytes : Math.min(blockMax, bytes * LZ4_RATIO);
      at += 4 + bytes + (flags & 16 ? 4 : 0);
    }
    at += 4 + (flags & 4 ? 4 : 0);
  }
  return size;
}

/** Upper bound of what zstd frames (RFC 8878) unpack to, and of the windows kept meanwhile. @throws they are none, or end early */
export function zstdSize(packed: Buffer): number {
  let size = 0;
  for (let at = 0; at < packed.length; ) {
    const magic = packed.readUInt32LE(at);
    if ((magic & 0xfffffff0) === ZSTD_SKIPPABLE) {
      at += 8 + packed.readUInt32LE(at + 4);
      continue;
    }
    if (magic !== ZSTD_MAGIC) throw new Error('it is no zstd frame');
    const flags = packed.readUInt8(at + 4);
    at += 5;
    const single = (flags & 32) !== 0;
    const window = single ? 0 : packed.readUInt8(at++);
    at += [0, 1, 2, 4][flags & 3]!;
    const sizeBytes = flags >> 6 === 0 ? Number(single) : 1 << (flags >> 6);
    const told = littleEndian(packed, at, sizeBytes) + (sizeBytes === 2 ? 256 : 0);
    at += sizeBytes;
    size += single ? 0 : 2 ** (10 + (window >> 3)) * (1 + (window & 7) / 8);
    let blocks = 0;
    for (let isLast = false; !isLast; ) {
      const head = packed.readUIntLE(at, 3);
      const bytes = head >> 3;
      const kind = (head >> 1) & 3;
      isLast = (head & 1) === 1;
      // Kept as it is, one byte repeated, compressed.
      blocks += kind === 2 ? ZSTD_BLOCK : bytes;
      at += 3 + (kind === 1 ? 1 : bytes);
    }
    size += sizeBytes > 0 ? told : blocks;
    at += flags & 4 ? 4 : 0;
  }
  return size;
}

/** The raw snappy blocks of a batch; each begins with its size. @throws {RangeError} the framing ends early */
export function snappyBlocks(packed: Buffer): Buffer[] {
  if (!packed.subarray(0, XERIAL_MAGIC.length).equals(XERIAL_MAGIC)) return [packed];
  const blocks: Buffer[] = [];
  for (let at = XERIAL_HEADER_BYTES; at < packed.length; ) {
    const bytes = packed.readUInt32BE(at);
    if (at + 4 + bytes > packed.length) throw new RangeError('it ends early');
    blocks.push(packed.subarray(at + 4, at + 4 + bytes));
    at += 4 + bytes;
  }
  return blocks;
}

/** What raw snappy blocks say that they unpack to; more than that is not written. */
export function snappySize(blocks: readonly Buffer[]): number {
  return blocks.reduce((sum, block) => sum + varint(block, 0).value, 0);
}

/** How many records lie in an unpacked batch: each stands behind its length. @throws {RangeError} more than a batch may have */
export function countRecords(unpacked: Buffer): number {
  let count = 0;
  for (let at = 0; at < unpacked.length; count += 1) {
    const { value, next } = varint(unpacked, at);
    // Zigzag: a length is never negative, and one that is none ends the count as it will end the reading.
    if (value % 2 === 1) break;
    at = next + value / 2;
    if (count === BATCH_MAX_RECORDS) throw new RangeError(`it holds more than ${BATCH_MAX_RECORDS} records`);
  }
  return count;
}

function varint(bytes: Buffer, start: number): { value: number; next: number } {
  let value = 0;
  for (let next = start, scale = 1; next < start + 5; next += 1, scale *= 128) {
    const byte = bytes.readUInt8(next);
    value += (byte & 127) * scale;
    if (byte < 128) return { value, next: next + 1 };
  }
  throw new RangeError('it holds a length that is none');
}

/** Eight bytes do not fit a number exactly, but whatever is that large is refused anyway. */
function littleEndian(bytes: Buffer, at: number, length: number): number {
  if (length < 8) return length === 0 ? 0 : bytes.readUIntLE(at, length);
  return bytes.readUInt32LE(at) + bytes.readUInt32LE(at + 4) * 2 ** 32;
}
