// A process of its own that asks `isBlocked`, see processes.mjs.

import { createReader } from '../dist/src/reader/index.js';

const [url, prefix] = process.argv.slice(2);
const reader = createReader({ url, prefix });
if (!(await reader.ready)) throw new Error('the reader found no Redis');

reader.on('transition', ({ channel }) => {
  if (reader.isBlocked(channel)) process.send({ channel, what: 'blocked', at: String(process.hrtime.bigint()) });
});
process.on('message', ({ channel }) => {
  if (reader.isBlocked(channel)) throw new Error(`${channel} is blocked before anything failed`);
  process.send({ channel, what: 'watched' });
});
process.on('disconnect', () => process.exit());
process.on('SIGTERM', async () => {
  await reader.close();
  process.exit();
});
process.send({ what: 'ready' });
