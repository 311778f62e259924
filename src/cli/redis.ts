import { addressOf } from '../process/clients.js';
import { closeRedis, openRedis, type Purpose, type RedisClient, whenReady } from '../redis/client.js';
import { withDeadline } from '../redis/deadline.js';
import { CliError, reasonOf } from './failure.js';

const CONNECT_WITHIN_MS = 5_000;
/** Within this every answer must come. */
const ANSWER_WITHIN_MS = 5_000;

/** Connections of one command, opened as they are asked for. */
export type Connections = {
  /** @throws {CliError} Redis is not there within 5 s; the message says why */
  open(url: string, purpose: Purpose): Promise<RedisClient>;
  /** Gives the client also when Redis is not there; `away` says why. */
  openAnyway(url: string, purpose: Purpose, withinMs?: number): Promise<{ client: RedisClient; away?: string }>;
};

/** Runs `act` and closes, in reverse, whatever it opened. */
export async function withConnections<T>(act: (connections: Connections) => Promise<T>): Promise<T> {
  const opened: RedisClient[] = [];
  async function openAnyway(
    url: string,
    purpose: Purpose,
    withinMs = CONNECT_WITHIN_MS,
  ): Promise<{ client: RedisClient; away?: string }> {
    let last = 'no answer';
    const client = openRedis(url, purpose, (error) => {
      last = reasonOf(error);
    });
    opened.push(client);
    const giveUp = new AbortController();
    try {
      await withDeadline(whenReady(client, giveUp.signal), withinMs, 'connect');
      return { client };
    } catch {
      giveUp.abort();
      const away = `Redis at ${addressOf(url)} cannot be reached within ${withinMs / 1_000} s: ${last}`;
      return { client, away };
    }
  }
  async function open(url: string, purpose: Purpose): Promise<RedisClient> {
    const { client, away } = await openAnyway(url, purpose);
    if (away !== undefined) throw new CliError(away);
    return client;
  }
  try {
    return await act({ open, openAnyway });
  } finally {
    await Promise.all(opened.reverse().map((client) => closeRedis(client)));
  }
}

/** Waits for an answer of Redis, and says in a sentence for people why there is none. @throws {CliError} */
export async function answered<T>(call: PromiseLike<T>, what: string): Promise<T> {
  try {
    return await withDeadline(call, ANSWER_WITHIN_MS, what);
  } catch (error) {
    throw new CliError(`Redis did not confirm ${what}: ${reasonOf(error)}`, 1, { cause: error });
  }
}
