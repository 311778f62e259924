// Says for which of so many users a half-open channel is in the list, as soon as it is half-open. Arguments: Redis URL, prefix, channel, users.
import { createFuseline } from '../../dist/src/fuseline.js';

const [url, prefix, channel, users] = process.argv.slice(2);
const fuse = await createFuseline({ url, prefix, channels: [channel], logger: { info() {}, warn() {} } });
while (fuse.stateOf(channel).trial === undefined) await new Promise((resolve) => setTimeout(resolve, 5));
const keys = Array.from({ length: Number(users) }, (_, i) => `user-${i}`);
console.log(`shown to ${keys.filter((key) => fuse.visible([channel, 'other'], { key }).includes(channel)).join()}`);
await fuse.close();
