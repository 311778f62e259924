import { promisify } from 'node:util';
import { unzip } from 'node:zlib';
import kafkajs from 'kafkajs';
import { sleep } from '../../redis/deadline.js';
import { allow, countRecords, lz4Size, snappyBlocks, snappySize, UNPACKED_MAX_BYTES, zstdSize } from './unpacked.js';

/** It has no types. */
type Snappy = { default: () => { decompress: Decompress } };
type Decompress = (compressed: Buffer) => Promise<Uint8Array>;

/** A batch that could not be decompressed; `at` is `performance.now()`. */
export type CodecFault = { readonly codec: string; readonly reason: string; readonly at: number };

/** kafkajs reads a batch that "ends early" as the end of what was fetched: what came before it is kept, other partitions go on. */
class UnreadableBatch extends Error {
  override readonly name = 'KafkaJSPartialMessageError';
}

/** The broker sends the unreadable batch again at once; so often it is looked at. */
const AGAIN_AFTER_MS = 1_000;
/**
 * What the batches of one answer may become together: an answer holds 10 MiB, and everything in it is unpacked before the first record is
 * handed over. What does not fit is asked for again.
 */
const FETCH_MAX_BYTES = 2 * UNPACKED_MAX_BYTES;
/** What kafkajs keeps of a record beside its bytes, about. */
const RECORD_BYTES = 256;

const gunzip = promisify(unzip);

/** Bytes unpacked since the last answer was asked for. */
let unpacked = 0;
let fault: CodecFault | undefined;
let registered = false;

/** The last batch that could not be decompressed, anywhere in this process. */
export function lastCodecFault(): CodecFault | undefined {
  return fault;
}

/** What was read of the last answer is handed over: the next one may become as large. */
export function beginFetch(): void {
  unpacked = 0;
}

/**
 * What a batch may be compressed with, by the number that Kafka gives it. Packages are loaded when the first such batch comes. Each refuses
 * what becomes too large before it becomes so.
 */
export const decompressors: Record<number, { readonly name: string; decompress: Decompress }> = {
  1: {
    name: 'gzip',
    async decompress(compressed) {
      try {
        return await gunzip(compressed, { maxOutputLength: UNPACKED_MAX_BYTES });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') allow(Number.POSITIVE_INFINITY);
        throw error;
      }
    },
  },
  2: {
    name: 'snappy',
    async decompress(compressed) {
      const { default: snappy } = (await import('kafkajs-snappy' as string)) as Snappy;
      const blocks = snappyBlocks(compressed);
      allow(snappySize(blocks));
      // Block by block: it would copy all that it has for each block of Java's framing.
      return Buffer.concat(await Promise.all(blocks.map((block) => snappy().decompress(block))));
    },
  },
  3: {
    name: 'lz4',
    async decompress(compressed) {
      allow(lz4Size(compressed));
      const { decompressFrame } = await import('lz4-napi');
      return decompressFrame(compressed);
    },
  },
  4: {
    name: 'zstd',
    async decompress(compressed) {
      allow(zstdSize(compressed));
      const { decompress } = await import('fzstd');
      return decompress(compressed);
    },
  },
};

/**
 * Makes kafkajs read gzip, snappy, lz4 and zstd, in the whole process: for readers, not for services that only publish. Without a codec one batch of a foreign producer would end the consumer; with these, a
 * batch that cannot be decompressed (no package for this platform, damaged bytes, a codec not yet invented) holds its partition alone.
 */
export function registerCodecs(): void {
  if (registered) return;
  registered = true;
  const codecs = kafkajs.CompressionCodecs as unknown as Record<number, () => unknown>;
  const { compress: gzip } = codecs[1]!() as { compress: unknown };
  for (let number = 1; number <= 7; number += 1) {
    codecs[number] = () => {
      const { name = `number ${number}`, decompress = unknownCodec } = decompressors[number] ?? {};
      const refuse = () => Promise.reject(new Error(`this version does not compress with ${name}`));
      return {
        compress: number === 1 ? gzip : refuse,
        decompress: (compressed: Buffer) => guarded(name, compressed, decompress),
      };
    };
  }
}

async function unknownCodec(): Promise<never> {
  throw new Error('this version knows no such codec');
}

async function guarded(codec: string, compressed: Buffer, decompress: Decompress): Promise<Buffer> {
  if (unpacked >= FETCH_MAX_BYTES) throw new UnreadableBatch('this batch comes with the next answer');
  try {
    const bytes = await decompress(compressed);
    const batch = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    unpacked += batch.length + countRecords(batch) * RECORD_BYTES;
    return batch;
  } catch (error) {
    fault = { codec, reason: error instanceof Error ? error.message : String(error), at: performance.now() };
    await sleep(AGAIN_AFTER_MS);
    throw new UnreadableBatch(`a batch compressed with ${codec} cannot be read`);
  }
}
