// A service that calls channel `A` through guard again and again until it is killed. Arguments: Redis URL, prefix, the third party's URL.
import { createFuseline } from '../../dist/src/fuseline.js';
import { didNotThrow } from '../../dist/src/publisher/track.js';

const [url, prefix, thirdParty] = process.argv.slice(2);
const fuse = await createFuseline({ url, prefix, channels: ['A'], logger: { info() {}, warn() {} } });
const headers = { 'x-pid': String(process.pid) };
const call = ({ signal }) => fetch(thirdParty, { signal, headers });
console.log('trying');
for (;;) {
  await fuse.guard('A', call, { success: didNotThrow, timeout: 1_500, fallback: () => undefined });
  await new Promise((resolve) => setTimeout(resolve, 5));
}
