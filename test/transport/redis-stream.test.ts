import { sharedRedisUrl } from '../support/redis.js';
import { describeTransport } from './conformance.js';
import { openRedisLog } from './redis-log.js';

describeTransport('redis-stream', () => openRedisLog(sharedRedisUrl()));
