// A service that publishes to Kafka and then has nothing more to do. Arguments: brokers, topic, and "flush" to wait.
import { createPublisher } from '../../dist/src/publisher/index.js';

const [, , brokers, topic, wait] = process.argv;
const publisher = createPublisher({ kafka: { brokers: brokers.split(','), topic } });
publisher.publish({ channel: 'ALIPAY', success: true });
console.log('published');
if (wait === 'flush') console.log(`flushed ${await publisher.flush()}`);
