import type { LogWriter } from '../port.js';
import type { KafkaWriterOptions } from './writer.js';

/** A writer to Kafka that loads kafkajs when the first outcomes are sent, so that whoever publishes elsewhere never loads it. */
export function lazyKafkaWriter(options: KafkaWriterOptions): LogWriter {
  let opening: Promise<LogWriter> | undefined;
  return {
    async send(batch) {
      opening ??= import('./writer.js').then(({ createKafkaWriter }) => createKafkaWriter(options));
      try {
        return await (await opening).send(batch);
      } catch (error) {
        // The package could not be loaded: nothing has left.
        return { sent: 0, unsent: batch, unknown: 0, error: error as Error };
      }
    },
    async close() {
      const writer = await opening?.catch(() => undefined);
      await writer?.close();
    },
  };
}
