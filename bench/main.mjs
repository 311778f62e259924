// `npm run bench [throughput|latency|cost|guard|replay|judgement|burnt|kafka …]`: measures what the README promises, and exits 1 with the numbers where a
// promise is broken. Kafka needs Java, so it runs only when it is named.

import { startRedis } from '../deploy/local/redis-server.mjs';
import { closeRedis, openRedis, whenReady } from '../dist/src/redis/client.js';
import { burnt } from './burnt.mjs';
import { cost } from './cost.mjs';
import { machine } from './figures.mjs';
import { guard } from './guard.mjs';
import { judgement } from './judgement.mjs';
import { kafka } from './kafka.mjs';
import { latency } from './latency.mjs';
import { replay } from './replay.mjs';
import { throughput } from './throughput.mjs';

const benchmarks = { throughput, latency, cost, guard, replay, judgement, burnt, kafka };
const usual = ['throughput', 'latency', 'cost', 'guard', 'replay', 'judgement', 'burnt'];

const wanted = process.argv.slice(2).filter((name) => !name.startsWith('-'));
const unknown = wanted.find((name) => !Object.hasOwn(benchmarks, name));
if (unknown !== undefined) {
  console.error(`no benchmark ${JSON.stringify(unknown)}: there are ${Object.keys(benchmarks).join(', ')}`);
  process.exit(2);
}

const redis = await startRedis();
try {
  const client = openRedis(redis.url, 'commands');
  await whenReady(client);
  console.log(`${new Date().toISOString().slice(0, 10)}: ${await machine(client)}\n`);
  await closeRedis(client);
  for (const [name, benchmark] of Object.entries(benchmarks)) {
    if (!(wanted.length > 0 ? wanted : usual).includes(name)) continue;
    if (!(await benchmark(redis.url))) process.exitCode = 1;
    console.log('');
  }
} finally {
  await redis.stop();
}
