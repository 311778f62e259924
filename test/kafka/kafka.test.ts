import { beforeAll } from 'vitest';
import { sharedKafka } from '../support/kafka.js';
import { describeTransport } from '../transport/conformance.js';
import { openKafkaLog } from './kafka-log.js';

beforeAll(sharedKafka, 120_000);

describeTransport('Kafka', async () => openKafkaLog(await sharedKafka()));
