// A service that publishes to Kafka and then has nothing more to do. Arguments: brokers, topic, and "flush" to wait.
// It has a codec of its own for other topics, which is none of the publisher's business.
import kafkajs from 'kafkajs';
import { createPublisher } from '../../dist/src/publisher/index.js';

const [, , brokers, topic, wait] = process.argv;
const ownCodec = () => ({});
kafkajs.CompressionCodecs[kafkajs.CompressionTypes.Snappy] = ownCodec;
const publisher = createPublisher({ kafka: { brokers: brokers.split(','), topic } });
publisher.publish({ channel: 'ALIPAY', success: true });
console.log('published');
if (wait === 'flush') {
  console.log(`flushed ${await publisher.flush()}`);
  console.log(`codec ${kafkajs.CompressionCodecs[kafkajs.CompressionTypes.Snappy] === ownCodec ? 'kept' : 'replaced'}`);
}
