import kafkajs from 'kafkajs';
import { sleep } from '../../redis/deadline.js';

/** It has no types. It knows plain snappy and the framing of Java's clients. */
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

let fault: CodecFault | undefined;
let registered = false;

/** The last batch that could not be decompressed, anywhere in this process. */
export function lastCodecFault(): CodecFault | undefined {
  return fault;
}

/** What a batch may be compressed with, by the number that Kafka gives it. Packages are loaded when the first such batch comes. */
export const decompressors: Record<number, { readonly name: string; decompress: Decompress }> = {
  2: {
    name: 'snappy',
    async decompress(compressed) {
      const { default: snappy } = (await import('kafkajs-snappy' as string)) as Snappy;
      return snappy().decompress(compressed);
    },
  },
  3: {
    name: 'lz4',
    async decompress(compressed) {
      const { decompressFrame } = await import('lz4-napi');
      return decompressFrame(compressed);
    },
  },
  4: {
    name: 'zstd',
    async decompress(compressed) {
      const { decompress } = await import('fzstd');
      return decompress(compressed);
    },
  },
};

/**
 * Makes kafkajs read gzip, snappy, lz4 and zstd. Without a codec one batch of a foreign producer would end the consumer; with these, a
 * batch that cannot be decompressed (no package for this platform, damaged bytes, a codec not yet invented) holds its partition alone.
 */
export function registerCodecs(): void {
  if (registered) return;
  registered = true;
  const codecs = kafkajs.CompressionCodecs as unknown as Record<number, () => unknown>;
  const gzip = codecs[1]!() as { compress: unknown; decompress: Decompress };
  codecs[1] = () => ({ ...gzip, decompress: (compressed: Buffer) => guarded('gzip', compressed, gzip.decompress) });
  for (let number = 2; number <= 7; number += 1) {
    codecs[number] = () => {
      const { name = `number ${number}`, decompress = unknownCodec } = decompressors[number] ?? {};
      return {
        compress: () => Promise.reject(new Error(`this version does not compress with ${name}`)),
        decompress: (compressed: Buffer) => guarded(name, compressed, decompress),
      };
    };
  }
}

async function unknownCodec(): Promise<never> {
  throw new Error('this version knows no such codec');
}

async function guarded(codec: string, compressed: Buffer, decompress: Decompress): Promise<Buffer> {
  try {
    const bytes = await decompress(compressed);
    return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  } catch (error) {
    fault = { codec, reason: error instanceof Error ? error.message : String(error), at: performance.now() };
    await sleep(AGAIN_AFTER_MS);
    throw new UnreadableBatch(`a batch compressed with ${codec} cannot be read`);
  }
}
