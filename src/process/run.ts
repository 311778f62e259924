import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { Logger } from 'pino';
import { healthPages } from '../http/pages.js';
import { CannotListen, serveHttp } from '../http/server.js';
import { createLogger } from '../observe/log.js';
import { createMetrics } from '../observe/metrics.js';
import { openQueues } from '../queue/queues.js';
import { withDeadline } from '../redis/deadline.js';
import { Keys } from '../redis/keys.js';
import { createLiveRules } from '../rules/live.js';
import { fileSource } from '../rules/sources.js';
import type { LoadedSettings } from '../settings/load.js';
import { openClients } from './clients.js';
import type { Context } from './context.js';
import { FINE, Health, waiting } from './health.js';
import type { RoleName } from './role-names.js';
import { ROLES } from './roles.js';
import { checkServer, RefusedServer } from './server-check.js';
import { type Stop, stopOnSignals } from './signals.js';

/** What is in progress at the end gets this long; a supervisor should wait longer before it kills. */
const DRAIN_WITHIN_MS = 25_000;
const CLOSE_WITHIN_MS = 3_000;

/** Something went wrong that a person must put right; the message is for that person, and needs no stack. */
const FOR_A_PERSON = [CannotListen, RefusedServer];

/**
 * The whole life of a process: opens what the roles need, in one place, runs them until a signal, and closes everything in reverse:
 * consumers, then the handlers that they feed, then queues, then Redis. Resolves to the exit code.
 *
 * While Redis is away at the start it waits, and `/readyz` says so.
 */
export async function runProcess(roles: readonly RoleName[], { settings, warnings }: LoadedSettings): Promise<number> {
  const log = createLogger(settings.logLevel, roles.join('+'));
  const health = new Health();
  const stop = stopOnSignals((reason) => {
    health.watch('process', () => waiting(`ending (${reason})`));
    log.info({ reason }, 'ending: no new work is taken, what is in progress is finished');
  });
  endOnUnhandled(log);
  for (const warning of warnings) log.warn(warning);

  const closers = new Closers(log);
  let code = 0;
  try {
    await withEnd(stop.signal, () => live(roles, settings, { log, health, stop, closers }));
  } catch (error) {
    if (!(stop.signal.aborted && error === stop.signal.reason)) {
      code = 1;
      if (FOR_A_PERSON.some((kind) => error instanceof kind)) log.fatal((error as Error).message);
      else log.fatal({ err: error }, 'the process ends because of an error');
    }
  }
  await closers.closeAll();
  stop.dispose();
  if (code === 0) log.info('ended in good order');
  return code;
}

type Parts = {
  readonly log: Logger;
  readonly health: Health;
  readonly stop: Stop;
  readonly closers: Closers;
};

async function live(
  roles: readonly RoleName[],
  settings: LoadedSettings['settings'],
  { log, health, stop, closers }: Parts,
): Promise<void> {
  const metrics = createMetrics();
  const fills: (() => void)[] = [];
  health.watch('process', () => waiting(clients.trouble() ?? 'starting'));
  const clients = openClients(settings, log);
  closers.add('Redis', () => clients.close());
  const http = await serveHttp({
    host: settings.httpHost,
    port: settings.httpPort,
    pages: healthPages({
      health: () => health.report(),
      registry: metrics.registry,
      beforeScrape: () => fills.forEach((fill) => void fill()),
    }),
    onError: (error) => log.warn({ err: error }, 'health and metrics'),
  });
  closers.add('health and metrics', () => http.close());
  const worker = `${hostname()}-${process.pid}-${randomBytes(4).toString('hex')}`;
  log.info({ url: http.url, worker, roles }, 'health and metrics are served');

  for (const server of clients.servers) {
    for (const warning of await checkServer(server, stop.signal)) log.warn(warning);
  }
  const keys = new Keys(settings.prefix);
  const rules = await createLiveRules({
    client: clients.main,
    keys,
    logger: log,
    ...(settings.rules === undefined ? {} : { source: fileSource(settings.rules) }),
  });
  closers.add('rules', () => rules.close());
  await rules.whenLoaded(stop.signal);
  const onQueueError = (error: Error) => log.debug({ err: error }, 'queue');
  const queues = openQueues({ client: clients.queueProducer, prefix: keys.queues, onError: onQueueError });
  closers.add('queues', () => queues.close());

  const shared = { settings, worker, keys, clients, rules, queues, health, metrics };
  if (!stop.signal.aborted) health.watch('process', () => FINE);
  const onScrape = (fill: () => void) => void fills.push(fill);
  await together(stop, roles, async (role) => {
    const context: Context = { ...shared, onScrape, log: createLogger(settings.logLevel, role) };
    await ROLES[role](context, stop.signal);
    if (!stop.signal.aborted) throw new Error(`the role ${role} ended without being asked to`);
  });
}

/** Runs all until the signal. If one fails, the others end in good order before its error is thrown. */
async function together(stop: Stop, roles: readonly RoleName[], run: (role: RoleName) => Promise<void>): Promise<void> {
  const failures: unknown[] = [];
  const onFailure = (error: unknown) => {
    failures.push(error);
    if (!stop.signal.aborted) stop.request('a role failed');
  };
  await Promise.all(roles.map((role) => run(role).catch(onFailure)));
  if (failures.length > 0) throw failures[0];
}

/** Bounds how long the end may take once it is asked for. @throws {DeadlineError} it takes longer */
async function withEnd(stop: AbortSignal, run: () => Promise<void>): Promise<void> {
  const running = run();
  const overdue = new Promise<never>((_resolve, reject) => {
    const begin = () => {
      withDeadline(running, DRAIN_WITHIN_MS, 'the request to end').catch(reject);
    };
    stop.addEventListener('abort', begin, { once: true });
  });
  await Promise.race([running, overdue]);
}

/** What was opened, closed in reverse. */
class Closers {
  readonly #log: Logger;
  readonly #opened: { name: string; close: () => Promise<void> }[] = [];

  constructor(log: Logger) {
    this.#log = log;
  }

  add(name: string, close: () => Promise<void>): void {
    this.#opened.push({ name, close });
  }

  /** Never rejects: one that fails, or hangs, does not keep the others open. */
  async closeAll(): Promise<void> {
    for (const { name, close } of this.#opened.splice(0).reverse()) {
      await withDeadline(close(), CLOSE_WITHIN_MS, `the close of ${name}`).catch((error: unknown) =>
        this.#log.warn({ err: error }, `${name} could not be closed in good order`),
      );
    }
  }
}

/** An error that nobody handled leaves the process in a state that nobody knows: log it and end, the supervisor starts a new one. */
function endOnUnhandled(log: Logger): void {
  const end = (error: unknown) => {
    log.fatal({ err: error }, 'an error that nobody handled');
    process.exit(1);
  };
  process.on('uncaughtException', end);
  process.on('unhandledRejection', end);
}
