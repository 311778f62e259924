import { connect as connectPlain, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import kafkajs, { type Admin, type ISocketFactoryArgs, type Kafka, type RetryOptions, type SASLOptions } from 'kafkajs';
import type { KafkaConnection } from './options.js';
import { stillIdleConnections } from './request-queue.js';

export type ClientOptions = KafkaConnection & {
  /** Hears what kafkajs calls an error: most of it is harmless and tried again. */
  readonly onError?: (message: string) => void;
  readonly retry?: RetryOptions;
  /** False where a lost answer is dealt with otherwise: kafkajs watches the time with timers that keep a process alive. */
  readonly enforceRequestTimeout?: boolean;
  /** Given every socket as it is made. */
  readonly onSocket?: (socket: Socket) => void;
};

/** One second, the default, is too short for a broker that is busy or far away. */
const CONNECT_MS = 5_000;
const REQUEST_MS = 15_000;
const KEEP_ALIVE_MS = 60_000;

/** A kafkajs client of our habits: nothing on the console, patience when connecting. Whoever reads needs `registerCodecs` too. */
export function openKafka(options: ClientOptions): Kafka {
  const { brokers, ssl, sasl, clientId = 'fuseline', onError, retry, enforceRequestTimeout, onSocket } = options;
  stillIdleConnections();
  return new kafkajs.Kafka({
    clientId,
    brokers: [...brokers],
    ...(ssl === undefined ? {} : { ssl }),
    ...(sasl === undefined ? {} : { sasl: sasl as SASLOptions }),
    connectionTimeout: CONNECT_MS,
    authenticationTimeout: CONNECT_MS,
    requestTimeout: REQUEST_MS,
    ...(enforceRequestTimeout === undefined ? {} : { enforceRequestTimeout }),
    ...(retry === undefined ? {} : { retry }),
    socketFactory(args) {
      const socket = openSocket(args);
      onSocket?.(socket);
      return socket;
    },
    logLevel: kafkajs.logLevel.ERROR,
    logCreator: () => (entry) => onError?.(entry.log.message),
  });
}

function openSocket({ host, port, ssl, onConnect }: ISocketFactoryArgs): Socket {
  const socket = ssl
    ? connectTls({ host, port, ...(isIP(host) ? {} : { servername: host }), ...ssl }, onConnect)
    : connectPlain({ host, port }, onConnect);
  // Small requests must not wait for the answer to the one before.
  return socket.setKeepAlive(true, KEEP_ALIVE_MS).setNoDelay(true);
}

/** Opens an admin client for `use`, and closes it. @throws what the brokers answer */
export async function withAdmin<T>(options: ClientOptions, use: (admin: Admin) => Promise<T>): Promise<T> {
  const admin = openKafka(options).admin();
  try {
    await admin.connect();
    return await use(admin);
  } finally {
    await admin.disconnect().catch(() => {});
  }
}

/** The error beneath kafkajs's wrappers ("retries exceeded", "aggregate"). */
export function rootCause(error: unknown): Error & { type?: string } {
  let found = error as Error & { type?: string; errors?: unknown[] };
  for (let depth = 0; depth < 8; depth += 1) {
    const inner = (found.cause ?? found.errors?.[0]) as typeof found | undefined;
    if (!(inner instanceof Error)) break;
    found = inner;
  }
  return found instanceof Error ? found : new Error(String(error));
}

/** Whether the brokers know no such topic (or partition). */
export function isUnknownTopic(error: unknown): boolean {
  return rootCause(error).type === 'UNKNOWN_TOPIC_OR_PARTITION';
}
