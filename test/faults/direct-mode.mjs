// A service in direct mode: judges one call after the other until it is killed. Arguments: URL, prefix, seed, channels.
import { createChecker } from '../../dist/src/checker/checker.js';

const [url, prefix, seed, ...channels] = process.argv.slice(2);
const checker = await createChecker({ url, prefix });
let state = Number(seed);
const random = () => {
  state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
  return state / 2 ** 31;
};
process.stdout.write('judging\n');
for (let i = 0; ; i += 1) {
  const channel = channels[i % channels.length];
  const { error, justBlocked } = await checker.record({ channel, success: random() >= 0.3, code: 'E1' });
  if (error !== undefined) process.stdout.write(`error ${error}\n`);
  if (justBlocked) process.stdout.write(`blocked ${channel}\n`);
  await new Promise((resolve) => setTimeout(resolve, 10));
}
