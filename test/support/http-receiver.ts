import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { releaseAtEnd } from './releasers.js';
import { sleep, until } from './wait.js';

export type ReceivedRequest = {
  method: string;
  /** With the query. */
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
  /** Wall clock, when the whole request was here. */
  atMs: number;
};

/** What the receiver does with a request that it has read whole and recorded. */
export type Answer =
  | { status?: number; headers?: Record<string, string>; body?: string; afterMs?: number }
  /** Never answers; the connection stays open. */
  | 'hang'
  /** Took the request, then closes without a byte: the sender cannot know whether it arrived. */
  | 'cut'
  /** Headers at once, then one byte of a body that never ends each `everyMs`. */
  | { trickle: { everyMs: number } }
  /** A 200 with a body of so many bytes. */
  | { huge: { bytes: number } };

export type HttpReceiver = {
  /** `http://127.0.0.1:<port>` */
  url: string;
  port: number;
  /** In the order of arrival; recorded before the answer. */
  requests: ReceivedRequest[];
  /** For the next requests, one each; after them the answer of {@link HttpReceiver.answerAlways} holds. */
  answerNext(...answers: Answer[]): void;
  /** Default: 200 with the body `ok`. */
  answerAlways(answer: Answer | ((request: ReceivedRequest) => Answer)): void;
  /** Resolves to all requests once there are `count`. */
  waitForRequests(count: number, options?: { timeoutMs?: number }): Promise<ReceivedRequest[]>;
  stop(): Promise<void>;
};

/** A real HTTP server in the place of a webhook; stopped at the end of the test. */
export async function startHttpReceiver(): Promise<HttpReceiver> {
  const requests: ReceivedRequest[] = [];
  const next: Answer[] = [];
  let always: Answer | ((request: ReceivedRequest) => Answer) = { status: 200, body: 'ok' };

  const server = createServer((message, response) => {
    response.on('error', () => {});
    void read(message).then(async (body) => {
      const { method = '', url = '', headers } = message;
      const request = { method, path: url, headers, body, atMs: Date.now() };
      requests.push(request);
      await give(next.shift() ?? (typeof always === 'function' ? always(request) : always), response);
    }, noRequest);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;

  async function stop(): Promise<void> {
    if (!server.listening) return;
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  }
  releaseAtEnd(stop);

  return {
    url: `http://127.0.0.1:${port}`,
    port,
    requests,
    answerNext: (...answers) => void next.push(...answers),
    answerAlways: (answer) => {
      always = answer;
    },
    waitForRequests: (count, { timeoutMs = 10_000 } = {}) =>
      until(() => requests, { what: `${count} requests`, accept: (all) => all.length >= count, timeoutMs }),
    stop,
  };
}

async function read(message: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

/** The sender went away in the middle: there is nobody to answer and nothing to record. */
function noRequest(): void {}

async function give(answer: Answer, response: ServerResponse): Promise<void> {
  if (answer === 'hang') return;
  if (answer === 'cut') {
    response.socket?.destroy();
  } else if ('trickle' in answer) {
    response.writeHead(200);
    while (!response.destroyed) {
      response.write('.');
      await sleep(answer.trickle.everyMs);
    }
  } else if ('huge' in answer) {
    await giveHuge(answer.huge.bytes, response);
  } else {
    if (answer.afterMs) await sleep(answer.afterMs);
    response.writeHead(answer.status ?? 200, answer.headers);
    response.end(answer.body ?? '');
  }
}

async function giveHuge(bytes: number, response: ServerResponse): Promise<void> {
  const piece = Buffer.alloc(64 * 1024, 'x');
  response.writeHead(200, { 'content-length': `${bytes}` });
  const closed = once(response, 'close');
  for (let left = bytes; left > 0 && !response.destroyed; left -= piece.length) {
    const hasRoom = response.write(left < piece.length ? piece.subarray(0, left) : piece);
    if (!hasRoom) await Promise.race([once(response, 'drain'), closed]);
  }
  response.end();
}
