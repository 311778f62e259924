import type { Socket } from 'node:net';
import kafkajs, { type Message, type Producer } from 'kafkajs';
import { AGO_MAX_MS } from '../../domain/outcome.js';
import { withDeadline } from '../../redis/deadline.js';
import { outcomeText } from '../outcome-text.js';
import type { LogWriter, QueuedOutcome, SendResult } from '../port.js';
import { isUnknownTopic, openKafka, rootCause } from './client.js';
import { DEFAULT_TOPIC, type KafkaConnection, OUTCOMES_MAX } from './options.js';

export type KafkaWriterOptions = KafkaConnection & {
  /** Must exist: `fuseline kafka create-topic`. Default `fuseline.outcomes`. */
  readonly topic?: string;
  readonly compression?: 'none' | 'gzip';
  /** After so long without an answer connections are cut, and the producer sends the same batch again, which Kafka knows by its number. */
  readonly answerWithinMs?: number;
  /** After so long nothing is tried any more. */
  readonly deadlineMs?: number;
};

/** A broker takes 1 MiB per partition and batch unless told otherwise; all that goes out at once stays well below. */
const CHUNK_MAX_BYTES = 768 * 1_024;
/** About 12 s in all: a broker's restart is waited out, and what waits meanwhile does not become much older than it says. */
const RETRY = { initialRetryTime: 100, maxRetryTime: 3_000, retries: 8 };
const PRODUCE = 0;

type Chunk = { outcomes: QueuedOutcome[]; messages: Message[] };

/**
 * Appends outcomes to a topic: one record per channel and batch, key = channel, so that a channel keeps its partition (murmur2, as
 * Java's clients) and its order. The producer is idempotent: what it repeats itself is in the log once. After it has given up, what
 * was never written comes back as unsent, everything else counts as unknown and is never sent again.
 */
export function createKafkaWriter(options: KafkaWriterOptions): LogWriter {
  const { topic = DEFAULT_TOPIC, compression = 'none', answerWithinMs = 10_000, deadlineMs = 30_000 } = options;
  let line: ProducerLine | undefined;
  let closed = false;

  async function sendChunk(messages: Message[]): Promise<{ wasWritten: boolean; error?: Error }> {
    line ??= new ProducerLine(options);
    const used = line;
    used.written = false;
    try {
      if (closed) throw new Error('the writer is closed');
      await withDeadline(used.connected(), deadlineMs, 'the connection to Kafka');
      const sending = used.producer.send({
        topic,
        acks: -1,
        compression: kafkajs.CompressionTypes[compression === 'gzip' ? 'GZIP' : 'None'],
        messages,
      });
      const impatience = setInterval(() => used.cut(), answerWithinMs).unref();
      await withDeadline(sending, deadlineMs, 'outcomes sent to Kafka').finally(() => clearInterval(impatience));
      return { wasWritten: true };
    } catch (error) {
      // One that gave up must go: it would give the next batch the same numbers, and Kafka would drop that as a repetition.
      line = undefined;
      used.discard();
      return { wasWritten: used.written, error: explained(error, topic) };
    }
  }

  return {
    async send(batch) {
      const chunks = chunksOf(batch);
      const total = { sent: 0, unknown: 0 };
      for (const [i, { outcomes, messages }] of chunks.entries()) {
        const { wasWritten, error } = await sendChunk(messages);
        if (error === undefined) {
          total.sent += outcomes.length;
          continue;
        }
        // The rest waits, so that it does not overtake what comes back.
        const unsent = new Set(chunks.slice(wasWritten ? i + 1 : i).flatMap((chunk) => chunk.outcomes));
        if (wasWritten) total.unknown += outcomes.length;
        return { ...total, unsent: batch.filter((queued) => unsent.has(queued)), error } satisfies SendResult;
      }
      return { ...total, unsent: [] };
    },
    async close() {
      closed = true;
      const last = line;
      line = undefined;
      if (last) await last.close();
    },
  };
}

function explained(error: unknown, topic: string): Error {
  if (!isUnknownTopic(error)) return rootCause(error);
  return new Error(`the topic ${topic} does not exist (fuseline kafka create-topic makes it)`, { cause: error });
}

/** A producer with its connections. It knows whether it ever wrote a batch to a socket, and can be silenced for good. */
class ProducerLine {
  readonly producer: Producer;
  /** Whether a produce request left since this was last set to false: after that, nobody knows without an answer. */
  written = false;
  readonly #sockets = new Set<Socket>();
  #discarded = false;
  #connecting: Promise<void> | undefined;

  constructor(options: KafkaConnection) {
    const kafka = openKafka({
      ...options,
      retry: RETRY,
      enforceRequestTimeout: false,
      onSocket: (socket) => this.#watch(socket),
    });
    this.producer = kafka.producer({
      idempotent: true,
      maxInFlightRequests: 1,
      allowAutoTopicCreation: false,
      metadataMaxAge: 30_000,
      createPartitioner: kafkajs.Partitioners.DefaultPartitioner,
      retry: RETRY,
    });
  }

  connected(): Promise<void> {
    this.#connecting ??= this.producer.connect();
    return this.#connecting;
  }

  /** Ends the connections; the producer opens others and goes on. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy(new Error('no answer in time'));
  }

  /** Nothing is written after this, whatever the producer still tries. */
  discard(): void {
    this.#discarded = true;
    this.cut();
    void this.producer.disconnect().catch(() => {});
  }

  async close(): Promise<void> {
    await withDeadline(this.producer.disconnect(), 2_000, 'the end of the connection').catch(() => {});
    this.#discarded = true;
    this.cut();
  }

  #watch(socket: Socket): void {
    if (this.#discarded) {
      socket.destroy();
      throw new Error('this producer was discarded');
    }
    // A service's process ends when the service has nothing more to do.
    socket.unref();
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    const write = socket.write.bind(socket) as (...args: unknown[]) => boolean;
    const spy = (...args: unknown[]): boolean => {
      // A request begins with its size and its kind, and is written whole.
      const [bytes] = args;
      if (Buffer.isBuffer(bytes) && bytes.length >= 6 && bytes.readInt16BE(4) === PRODUCE) this.written = true;
      return write(...args);
    };
    socket.write = spy as Socket['write'];
  }
}

/** One record per channel, in the order of their first outcomes; cut where a record or a batch would grow too large. */
function chunksOf(batch: readonly QueuedOutcome[]): Chunk[] {
  const now = performance.now();
  const chunks: Chunk[] = [];
  let records = new Map<string, string[]>();
  let outcomes: QueuedOutcome[] = [];
  let bytes = 0;
  const cut = () => {
    const messages = [...records].map(([key, texts]) => ({
      key,
      value: texts.length === 1 ? texts[0]! : `[${texts.join(',')}]`,
    }));
    if (outcomes.length > 0) chunks.push({ outcomes, messages });
    [records, outcomes, bytes] = [new Map(), [], 0];
  };
  for (const queued of batch) {
    const { outcome, queuedAt } = queued;
    const agoMs = Math.min(AGO_MAX_MS, Math.max(0, Math.round(now - queuedAt)));
    const text = outcomeText(outcome, agoMs);
    const size = Buffer.byteLength(text) + 1;
    if (bytes + size > CHUNK_MAX_BYTES || records.get(outcome.channel)?.length === OUTCOMES_MAX) cut();
    const record = records.get(outcome.channel);
    if (record) record.push(text);
    else records.set(outcome.channel, [text]);
    outcomes.push(queued);
    bytes += size;
  }
  cut();
  return chunks;
}
