// A worker reduced to its transport: says each outcome that it reads.
import { randomUUID } from 'node:crypto';
import { closeRedis, openRedis } from '../../dist/src/redis/client.js';
import { Keys } from '../../dist/src/redis/keys.js';
import { createRedisStreamReader } from '../../dist/src/transport/redis-stream/reader.js';

const [, , url, prefix] = process.argv;
const client = openRedis(url, 'commands');
const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());
const reader = createRedisStreamReader({
  client,
  openClient: () => openRedis(url, 'blocking'),
  keys: new Keys(prefix),
  worker: randomUUID(),
});
const owned = setInterval(() => console.log(`owns ${reader.progress().owned.length}`), 100);
await reader.run(async ({ entries }) => {
  for (const { outcomes } of entries) for (const one of outcomes) console.log(`read ${one.durationMs}`);
}, stop.signal);
clearInterval(owned);
await closeRedis(client);
console.log('ended');
