import { sharedKafka } from '../support/kafka.js';
import { describeTransport } from '../transport/conformance.js';
import { openKafkaLog } from './kafka-log.js';

describeTransport('Kafka', async () => openKafkaLog(await sharedKafka()));
