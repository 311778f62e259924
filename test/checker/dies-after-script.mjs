// A process in direct mode that is gone the moment Redis has taken the blocking outcome: before it can announce anything.
import { mark } from '../../dist/src/channel/agenda.js';
import { record } from '../../dist/src/channel/record.js';
import { openRedis, whenReady } from '../../dist/src/redis/client.js';
import { Keys } from '../../dist/src/redis/keys.js';

const [url, prefix, channel] = process.argv.slice(2);
const keys = new Keys(prefix);
const client = openRedis(url, 'commands');
await whenReady(client);
const policy = {
  mode: 'on',
  window: { kind: 'count', size: 10 },
  successRate: 7000,
  block: { forMs: 60000, growth: 1, maxMs: 60000 },
  holdMs: 60000,
  ignore: [],
};
await mark(client, keys, [channel]);
const batch = { partition: 'direct/dies', results: '0000', entries: [['1', 0, 4]], times: [], evidence: [] };
const { result } = await record(client, keys, channel, policy, 300000, batch);
if (result.pushed !== 1) throw new Error('it should have blocked');
process.kill(process.pid, 'SIGKILL');
