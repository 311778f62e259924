// A service that publishes one outcome and comes to its end.
import { createPublisher } from '../../dist/src/publisher/index.js';

const [, , url, prefix, flush] = process.argv;
const publisher = createPublisher({ url, prefix });
// Long enough for a connection to be open, refused, or under way.
setTimeout(async () => {
  publisher.publish({ channel: 'ALIPAY', success: true });
  console.log('published');
  if (flush) console.log(`flushed ${await publisher.flush()}`);
}, 300);
