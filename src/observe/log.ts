import { type Logger, pino } from 'pino';

/** What a flow asks of a logger: pino's own, or anything of the same shape. */
export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>;

/** JSON lines on standard output, one per event. Never given a secret, nor a URL's path. */
export function createLogger(level: string, role: string): Logger {
  return pino({ level, base: { role, pid: process.pid }, serializers: { err: brief } });
}

/** For those who want none. */
export const silent: Log = { debug() {}, info() {}, warn() {}, error() {} };

/** An error as a line can hold it: what it is and where, not the command or the request that hangs on it. */
function brief(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { name, message, stack, cause } = error;
  return { type: name, message, stack, ...(cause === undefined ? {} : { cause: brief(cause) }) };
}
