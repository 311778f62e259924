import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, it } from 'vitest';
import { CannotListen, type HttpServer, serveHttp } from '../../src/http/server.js';
import { releaseAtEnd } from '../support/releasers.js';

async function serve(port = 0): Promise<HttpServer> {
  const server = await serveHttp({
    host: '127.0.0.1',
    port,
    pages: {
      '/healthz': () => ({ status: 200, type: 'application/json', body: '{"status":"alive"}\n' }),
      '/broken': () => Promise.reject(new Error('no')),
    },
    onError: () => {},
  });
  releaseAtEnd(() => server.close().catch(() => {}));
  return server;
}

/** Sends bytes as they are, which fetch would tidy up, and resolves to everything that came back until the end. */
async function raw(url: string, text: string): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  let answer = '';
  socket.on('data', (chunk) => {
    answer += chunk;
  });
  socket.on('error', () => {});
  socket.write(text);
  await once(socket, 'close');
  return answer;
}

const statusOf = (answer: string) => Number(/^HTTP\/1.1 (\d+)/.exec(answer)?.[1]);
const request = (line: string, ...headers: string[]) =>
  `${[`${line} HTTP/1.1`, 'host: x', 'connection: close', ...headers].join('\r\n')}\r\n\r\n`;

it('answers a page to GET and HEAD, whatever the query, and closes', async () => {
  const { url, close } = await serve();
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  expect(await raw(url, request('GET /healthz?x=1'))).toContain('{"status":"alive"}');
  const head = await raw(url, request('HEAD /healthz'));
  expect(statusOf(head)).toBe(200);
  expect(head).toMatch(/content-length: 19/i);
  expect(head).not.toContain('alive');
  await close();
  await expect(fetch(`${url}/healthz`)).rejects.toThrow();
});

it.each(['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'PROPFIND'])('refuses %s on every page', async (method) => {
  const { url } = await serve();
  expect(statusOf(await raw(url, request(`${method} /healthz`, 'content-length: 0')))).toBe(405);
});

it.each([
  '/',
  '/admin',
  '/admin/queues',
  '/healthz/',
  '/healthz/..;/admin',
  '/..;/healthz',
  '/%68ealthz',
  '/HEALTHZ',
  '//healthz',
  '/../healthz',
  '/__proto__',
  '/constructor',
  '/toString',
  'http://other/healthz',
  '*',
])('9.03 has nothing at %s, for any method and origin', async (path) => {
  const { url } = await serve();
  expect(statusOf(await raw(url, request(`GET ${path}`, 'origin: http://evil.example')))).toBe(404);
  expect(statusOf(await raw(url, request(`POST ${path}`, 'content-length: 0')))).toBe(404);
});

it('bounds what a stranger can send: headers, and a body that nobody reads', async () => {
  const { url } = await serve();
  expect(statusOf(await raw(url, request('GET /healthz', `x: ${'a'.repeat(20_000)}`)))).toBe(431);
  const huge = `POST /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000\r\n\r\n${'a'.repeat(1_000)}`;
  expect(statusOf(await raw(url, huge))).toBe(405);
});

it('a page that fails breaks its own connection and nothing else', async () => {
  const { url } = await serve();
  await expect(fetch(`${url}/broken`)).rejects.toThrow();
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
});

it('says that a port is in use, and which setting helps', async () => {
  const { url } = await serve();
  const { port } = new URL(url);
  await expect(serve(Number(port))).rejects.toThrow(CannotListen);
  await expect(serve(Number(port))).rejects.toThrow(
    `health and metrics: 127.0.0.1:${port} is in use by another process: set httpPort (FUSELINE_HTTP_PORT) to a free port`,
  );
});

it('ends connections that say nothing, or not all, within seconds, so that as many as there may be keep no probe out for long', async () => {
  const { url } = await serve();
  const begun = performance.now();
  const ends = await Promise.all(
    Array.from({ length: 100 }, (_, i) => raw(url, i % 2 === 0 ? '' : 'GET /healthz HTTP/1.1\r\nhost: x\r\nx')),
  );
  expect(performance.now() - begun).toBeLessThan(8_000);
  expect(ends.every((answer) => answer === '' || statusOf(answer) === 408)).toBe(true);
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
});
