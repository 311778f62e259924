// A service that keeps a reader: says when channel `a` changes sides. argv: url, prefix.
import { createReader } from '../../dist/src/reader/index.js';

const [url, prefix] = process.argv.slice(2);
const fuse = createReader({ url, prefix });
console.log(`ready ${await fuse.ready}`);
let blocked;
setInterval(() => {
  const now = fuse.isBlocked('a');
  if (now !== blocked) console.log(`${now ? 'hidden' : 'visible'} ${Date.now()}`);
  blocked = now;
}, 1);
