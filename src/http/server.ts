import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What a path answers. `body` is sent as it is. */
export type Page = { readonly status: number; readonly type: string; readonly body: string };

export type HttpServerOptions = {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  /** By exact path. There is nothing else: no page that changes anything, none that shows jobs. */
  readonly pages: Readonly<Record<string, () => Page | Promise<Page>>>;
  readonly onError: (error: unknown) => void;
};

export type HttpServer = {
  /** `http://127.0.0.1:9464` */
  readonly url: string;
  close(): Promise<void>;
};

/** The address cannot be listened on; the message names it and what to set. */
export class CannotListen extends Error {
  override readonly name = 'CannotListen';
}

const MAX_CONNECTIONS = 100;
const MAX_HEADER_BYTES = 8 * 1024;
const HEADERS_WITHIN_MS = 5_000;
const REQUEST_WITHIN_MS = 10_000;

/**
 * Serves a few pages that say how a process is. Reads no body, keeps no session, and bounds whatever a stranger can take: connections,
 * headers and time.
 *
 * @throws {CannotListen} port in use, not allowed, or no such address here
 */
export async function serveHttp({ host, port, pages, onError }: HttpServerOptions): Promise<HttpServer> {
  const server = createServer(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: HEADERS_WITHIN_MS,
      requestTimeout: REQUEST_WITHIN_MS,
      keepAliveTimeout: 5_000,
      // Looked after only every 30 s otherwise: silent connections would keep a supervisor's probes out for so long.
      connectionsCheckingInterval: 1_000,
    },
    (request, response) => {
      answer(request, response, pages).catch((error: unknown) => {
        onError(error);
        response.destroy();
      });
    },
  );
  server.maxConnections = MAX_CONNECTIONS;
  await listen(server, host, port);
  server.on('error', onError);
  const address = server.address() as AddressInfo;
  const shown = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return {
    url: `http://${shown}:${address.port}`,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  pages: HttpServerOptions['pages'],
): Promise<void> {
  // The query is nobody's business here; the path is compared whole, never decoded or resolved.
  const path = (request.url ?? '').split('?', 1)[0]!;
  const { method } = request;
  const page = Object.hasOwn(pages, path) ? pages[path] : undefined;
  if (page === undefined) return send(response, method, text(404, 'not found\n'));
  if (method !== 'GET' && method !== 'HEAD') {
    response.setHeader('allow', 'GET, HEAD');
    return send(response, method, text(405, 'only GET and HEAD\n'));
  }
  send(response, method, await page());
}

function send(response: ServerResponse, method: string | undefined, { status, type, body }: Page): void {
  response.writeHead(status, {
    'content-type': type,
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    // A body that nobody reads would otherwise wait on this connection.
    ...(method === 'GET' || method === 'HEAD' ? {} : { connection: 'close' }),
  });
  response.end(method === 'HEAD' ? undefined : body);
}

function text(status: number, body: string): Page {
  return { status, type: 'text/plain; charset=utf-8', body };
}

async function listen(server: Server, host: string, port: number): Promise<void> {
  try {
    server.listen(port, host);
    await once(server, 'listening');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const at = `${host}:${port}`;
    const why =
      code === 'EADDRINUSE'
        ? `${at} is in use by another process: set httpPort (FUSELINE_HTTP_PORT) to a free port`
        : `cannot listen on ${at} (${code ?? String(error)}): set httpHost and httpPort (FUSELINE_HTTP_HOST, FUSELINE_HTTP_PORT)`;
    throw new CannotListen(`health and metrics: ${why}`, { cause: error });
  }
}
