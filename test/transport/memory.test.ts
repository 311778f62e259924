import { createMemoryLog } from '../../src/transport/memory.js';
import { describeTransport } from './conformance.js';

describeTransport('memory', async () => {
  const log = createMemoryLog({ partitions: 4 });
  return {
    partitions: log.partitions,
    writer: log.writer,
    reader: log.reader,
    async appendForeign(partition, outcome) {
      log.append(partition, [outcome]);
    },
    deadLetters: async () => [...log.deadLetters],
    async close() {},
  };
});
