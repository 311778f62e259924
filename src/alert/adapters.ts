import type { Receiver } from '../domain/receiver.js';
import type { Adapter } from './adapter.js';
import { dingtalk } from './dingtalk.js';
import { slack } from './slack.js';
import { webhook } from './webhook.js';

/** Every kind of receiver. Another vendor is another file and another line here. */
export const ADAPTERS: Readonly<Record<Receiver['type'], Adapter>> = { webhook, slack, dingtalk };
