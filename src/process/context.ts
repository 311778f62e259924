import type { Logger } from 'pino';
import type { Metrics } from '../observe/metrics.js';
import type { Queues } from '../queue/queues.js';
import type { Keys } from '../redis/keys.js';
import type { DynamicRules } from '../rules/port.js';
import type { Settings } from '../settings/definitions.js';
import type { Clients } from './clients.js';
import type { Health } from './health.js';

/** What a role is given. Everything in it is opened and closed by the process; a role closes only what it opens itself. */
export type Context = {
  readonly settings: Settings;
  /** Names this process in leases, heartbeats and stats: host, pid and a random part, unique for every process that ever runs. */
  readonly worker: string;
  readonly keys: Keys;
  readonly clients: Clients;
  readonly rules: DynamicRules;
  readonly queues: Queues;
  readonly health: Health;
  readonly metrics: Metrics;
  /** Calls `fill` before each scrape of `/metrics`. */
  readonly onScrape: (fill: () => void) => void;
  readonly log: Logger;
};

/** Does its work until the signal; resolves when nothing is in flight. A rejection ends the process. */
export type Role = (context: Context, signal: AbortSignal) => Promise<void>;
