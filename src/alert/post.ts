import { lookup as dnsLookup, type LookupAddress, type LookupOptions } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { Agent, buildConnector, request } from 'undici';
import { assertPublicAddress, assertPublicHost, checkUrl, DestinationError } from './address.js';

/** How much of an answer is read: every verdict that an adapter needs lies in the first bytes. */
export const BODY_MAX_BYTES = 64 * 1024;

export type HttpRequest = {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
};

export type HttpAnswer = {
  readonly status: number;
  readonly retryAfter?: string;
  /** The server's own clock, ms, where it told it. */
  readonly dateMs?: number;
  /** At most {@link BODY_MAX_BYTES}. */
  readonly body: string;
};

/** No answer. Whether the message arrived is unknown, unless `refused`: then it was never sent. */
export type NoAnswer = { readonly refused: boolean; readonly reason: string };

/** The part of `dns.lookup` that is used. */
export type Lookup = (
  hostname: string,
  options: LookupOptions & { all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

export type Poster = {
  /** One attempt under one deadline for connection, headers and body. Never rejects, never follows a redirect. */
  post(request: HttpRequest, options: { timeoutMs: number; signal?: AbortSignal }): Promise<HttpAnswer | NoAnswer>;
  close(): Promise<void>;
};

const CONNECT_TIMEOUT_MS = 10_000;

/** Sends HTTP requests to receivers. `allowPrivate` opens private addresses, for receivers inside the own network. */
export function createPoster({
  allowPrivate = false,
  lookup = dnsLookup,
}: {
  allowPrivate?: boolean;
  lookup?: Lookup;
} = {}): Poster {
  const guarded: LookupFunction = (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, '');
      try {
        // Checked here, where the connection is made: a name may have answered otherwise a moment ago.
        if (!allowPrivate) for (const { address } of addresses) assertPublicAddress(address);
      } catch (refused) {
        return callback(refused as Error, '');
      }
      const first = addresses[0];
      if (options.all) callback(null, addresses);
      else if (first) callback(null, first.address, first.family);
      else callback(new Error('no address found'), '');
    });
  };
  const connector = buildConnector({ timeout: CONNECT_TIMEOUT_MS, lookup: guarded });
  const agent = new Agent({
    // The look-up is not asked when the host is an address.
    connect: (options, callback) => {
      try {
        if (!allowPrivate) assertPublicHost(options.hostname);
      } catch (error) {
        return callback(error as Error, null);
      }
      connector(options, callback);
    },
    headersTimeout: 0,
    bodyTimeout: 0,
  });

  return {
    async post({ url, headers, body }, { timeoutMs, signal }) {
      const deadline = AbortSignal.timeout(timeoutMs);
      const both = signal ? AbortSignal.any([deadline, signal]) : deadline;
      try {
        const { href } = checkUrl(url, { allowPrivate });
        const options = { method: 'POST', headers, body, signal: both, dispatcher: agent, reset: true } as const;
        const answer = await request(href, options);
        const text = await readCapped(answer.body);
        const retryAfter = one(answer.headers['retry-after']);
        const dateMs = Date.parse(one(answer.headers.date) ?? '');
        return {
          status: answer.statusCode,
          body: text,
          ...(retryAfter !== undefined && { retryAfter }),
          ...(dateMs && { dateMs }),
        };
      } catch (error) {
        if (signal?.aborted) return { refused: false, reason: 'stopped before there was an answer' };
        if (deadline.aborted) return { refused: false, reason: `no complete answer within ${timeoutMs} ms` };
        return explain(error);
      }
    },
    close: () => agent.destroy(),
  };
}

async function readCapped(
  body: AsyncIterable<Buffer> & { destroy(): unknown; on(event: 'error', listener: () => void): unknown },
): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    size += chunk.length;
    // Leaving the loop destroys the stream, and with it the connection.
    if (size >= BODY_MAX_BYTES) break;
  }
  return Buffer.concat(chunks).subarray(0, BODY_MAX_BYTES).toString('utf8');
}

/** Only codes and our own words: the messages of others may hold the URL. */
function explain(error: unknown): NoAnswer {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    if (at instanceof DestinationError) return { refused: true, reason: at.message };
    if (at instanceof AggregateError && at.errors[0] instanceof DestinationError)
      return { refused: true, reason: at.errors[0].message };
  }
  const code = (error as NodeJS.ErrnoException).code;
  return { refused: false, reason: `no connection or no answer: ${typeof code === 'string' ? code : 'unknown error'}` };
}

function one(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}
