import { mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { resolveReference, UnresolvedReference } from '../../src/rules/reference.js';
import { fileSource, functionSource, httpSource } from '../../src/rules/sources.js';
import { sleep, until } from '../support/wait.js';
import { follow, openStore } from './support.js';

const { signal } = new AbortController();

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'fuseline-rules-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await new Promise((resolve) => server.once('listening', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/secret-path?token=hush`;
}

describe('a file of rules', () => {
  it('is read once per change, also when it is replaced behind a symbolic link', async () => {
    const at = folder();
    const [path, one, two] = [join(at, 'rules.yaml'), join(at, 'one'), join(at, 'two')];
    writeFileSync(one, 'mode: on');
    writeFileSync(two, 'mode: off');
    symlinkSync(one, path);
    const source = fileSource(path);
    expect(await source.read(signal)).toEqual({ document: 'mode: on' });
    expect(await source.read(signal)).toBeUndefined();
    symlinkSync(two, join(at, 'next'));
    renameSync(join(at, 'next'), path);
    expect(await source.read(signal)).toEqual({ document: 'mode: off' });
    writeFileSync(two, 'mode: observe');
    expect(await source.read(signal)).toEqual({ document: 'mode: observe' });
  });

  it('is not taken while it is being written, though the half of it is valid YAML', async () => {
    const path = join(folder(), 'rules.yaml');
    writeFileSync(path, 'mode: on\n');
    const source = fileSource(path);
    const looking = source.read(signal);
    await sleep(20);
    writeFileSync(path, 'mode: on\nchannels: { A: {} }\n');
    const document = (await looking)?.document ?? (await source.read(signal))?.document;
    expect(document).toBe('mode: on\nchannels: { A: {} }\n');
  });

  it('changes the rules of every process without a restart', async () => {
    const path = join(folder(), 'rules.yaml');
    writeFileSync(path, 'mode: on');
    const store = await openStore();
    const reader = await follow(store);
    const owner = await follow({ ...store, source: fileSource(path) });
    expect(owner.policyFor('A').mode).toBe('on');
    await reader.refresh();
    writeFileSync(path, 'mode: off');
    await until(() => [owner, reader].every((rules) => rules.policyFor('A').mode === 'off'), {
      what: 'mode off in both',
      timeoutMs: 3_000,
    });
  });

  it('is refused when it is missing or too large', async () => {
    const path = join(folder(), 'rules.yaml');
    await expect(fileSource(path).read(signal)).rejects.toThrow('ENOENT');
    writeFileSync(path, 'x'.repeat(2 << 20));
    await expect(fileSource(path).read(signal)).rejects.toThrow('more than 1048576 bytes');
  });
});

describe('rules over HTTP', () => {
  it('are asked for with If-None-Match, so that an unchanged document costs no body', async () => {
    let document = 'mode: on';
    const answered: number[] = [];
    const url = await serve((request, response) => {
      const etag = `"${document.length}"`;
      const status = request.headers['if-none-match'] === etag ? 304 : 200;
      answered.push(status);
      response.writeHead(status, { etag }).end(status === 200 ? document : undefined);
    });
    const source = httpSource({ url });
    expect(await source.read(signal)).toEqual({ document });
    expect(await source.read(signal)).toBeUndefined();
    document = 'mode: off';
    expect(await source.read(signal)).toEqual({ document });
    expect(answered).toEqual([200, 304, 200]);
  });

  it('change every process without a restart, and carry the headers they were given', async () => {
    let document = 'mode: on';
    const url = await serve((request, response) => {
      response.writeHead(request.headers.authorization === 'Bearer x' ? 200 : 401).end(document);
    });
    const store = await openStore();
    const reader = await follow(store);
    await follow({ ...store, source: httpSource({ url, headers: { authorization: 'Bearer x' } }) });
    await until(() => reader.policyFor('A').mode === 'on', { what: 'mode on', timeoutMs: 3_000 });
    document = 'mode: off';
    await until(() => reader.policyFor('A').mode === 'off', { what: 'mode off', timeoutMs: 3_000 });
  });

  it.each<[string, RequestListener, string]>([
    ['answers 500', (_, response) => response.writeHead(500).end('mode: off'), 'answers 500'],
    ['answers 204', (_, response) => response.writeHead(204).end(), 'answers 204'],
    [
      'redirects',
      (request, response) =>
        request.url === '/other' ? response.end('mode: off') : response.writeHead(302, { location: '/other' }).end(),
      'gives no answer',
    ],
    ['never answers', () => {}, 'no answer in time'],
    ['trickles', (_, response) => response.writeHead(200).write('mode'), ''],
    ['sends without end', (_, response) => endless(response), 'sends more than 1048576 bytes'],
  ])(
    'are refused, in time and without the path in the message, from a server that %s',
    async (_name, listener, message) => {
      const url = await serve(listener);
      const error = await httpSource({ url, deadlineMs: 300 })
        .read(signal)
        .then(
          () => new Error('was accepted'),
          (reason: Error) => reason,
        );
      expect(error.message).toContain(message);
      expect(error.message).not.toContain('accepted');
      expect(error.message).not.toMatch(/hush|secret-path/);
    },
  );

  it('need a URL', () => {
    expect(() => httpSource({ url: 'hush hush' })).toThrow('the URL of the rules is not a URL');
  });
});

function endless(response: Parameters<RequestListener>[1]): void {
  response.writeHead(200);
  const chunk = Buffer.alloc(65_536, 'x');
  const more = () => {
    while (!response.destroyed && response.write(chunk));
  };
  response.on('drain', more);
  more();
}

describe('a function of rules', () => {
  it('has a deadline', async () => {
    await expect(functionSource('slow', () => new Promise(() => {})).read(signal)).rejects.toThrow(
      'no answer to the rules function slow within 2000 ms',
    );
  });
});

describe('a reference', () => {
  it('leads to a variable or a file, and a literal is itself', () => {
    const path = join(folder(), 'secret');
    writeFileSync(path, 'hush\n');
    expect(resolveReference('env:A', { A: ' x ' })).toBe('x');
    expect(resolveReference(`file:${path}`)).toBe('hush');
    expect(resolveReference('https://example.com/x')).toBe('https://example.com/x');
  });

  it.each([
    ['env:MISSING', 'the variable MISSING is not set'],
    ['env:EMPTY', 'the variable EMPTY is empty'],
    ['file:/does/not/exist', 'it cannot be read (ENOENT)'],
    ['file:relative', 'the path must be absolute'],
  ])('%s that leads nowhere says why', (reference, reason) => {
    expect(() => resolveReference(reference, { EMPTY: ' ' })).toThrow(UnresolvedReference);
    expect(() => resolveReference(reference, { EMPTY: ' ' })).toThrow(reason);
  });
});
