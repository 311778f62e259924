import { describe, expect, it } from 'vitest';
import { checkUrl } from '../../src/alert/address.js';
import { BODY_MAX_BYTES, createPoster, type HttpAnswer, type Lookup, type NoAnswer } from '../../src/alert/post.js';
import { startHttpReceiver } from '../support/http-receiver.js';
import { releaseAtEnd } from '../support/releasers.js';

function poster(options: Parameters<typeof createPoster>[0] = { allowPrivate: true }) {
  const made = createPoster(options);
  releaseAtEnd(() => made.close());
  const post = (url: string, timeoutMs = 2_000, signal?: AbortSignal): Promise<HttpAnswer | NoAnswer> =>
    made.post(
      { url, headers: { 'content-type': 'application/json' }, body: '{"a":1}' },
      { timeoutMs, ...(signal && { signal }) },
    );
  return post;
}

const always =
  (...addresses: string[]): Lookup =>
  (_name, _options, callback) =>
    callback(
      null,
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    );

describe('post', () => {
  it('sends the body and gives back status, Retry-After, the clock of the server and the text', async () => {
    const receiver = await startHttpReceiver();
    receiver.answerAlways({
      status: 429,
      headers: { 'retry-after': '7', date: 'Wed, 21 Oct 2026 07:28:00 GMT' },
      body: 'slow down',
    });
    const answer = await poster()(`${receiver.url}/hook?x=1`);
    expect(answer).toEqual({
      status: 429,
      retryAfter: '7',
      dateMs: Date.parse('2026-10-21T07:28:00Z'),
      body: 'slow down',
    });
    expect(receiver.requests[0]).toMatchObject({ method: 'POST', path: '/hook?x=1', body: '{"a":1}' });
  });

  it('puts one deadline on connection, headers and body', async () => {
    const receiver = await startHttpReceiver();
    for (const slow of ['hang', { trickle: { everyMs: 20 } }] as const) {
      receiver.answerAlways(slow);
      const from = performance.now();
      expect(await poster()(receiver.url, 300)).toEqual({ refused: false, reason: 'no complete answer within 300 ms' });
      expect(performance.now() - from).toBeLessThan(900);
    }
  });

  it('reads no more than it needs of a body of a gigabyte', async () => {
    const receiver = await startHttpReceiver();
    receiver.answerAlways({ huge: { bytes: 1024 ** 3 } });
    const from = performance.now();
    const answer = (await poster()(receiver.url, 5_000)) as HttpAnswer;
    expect(answer.status).toBe(200);
    expect(answer.body.length).toBe(BODY_MAX_BYTES);
    expect(performance.now() - from).toBeLessThan(3_000);
  });

  it('6.16 does not follow redirects', async () => {
    const [receiver, inner] = [await startHttpReceiver(), await startHttpReceiver()];
    receiver.answerAlways({ status: 302, headers: { location: inner.url } });
    expect(await poster()(receiver.url)).toMatchObject({ status: 302 });
    expect(inner.requests).toEqual([]);
  });

  it('says by code what went wrong, and never shows path or query', async () => {
    const receiver = await startHttpReceiver();
    receiver.answerAlways('cut');
    const cut = await poster()(`${receiver.url}/secret-path?token=secret`);
    await receiver.stop();
    const refused = await poster()(`${receiver.url}/secret-path?token=secret`);
    const nowhere = await poster()('http://does-not-exist.invalid/secret-path?token=secret');
    for (const answer of [cut, refused, nowhere]) {
      expect(answer).toMatchObject({ refused: false, reason: expect.stringMatching(/: [A-Z_]+$/) });
      expect(JSON.stringify(answer)).not.toContain('secret');
    }
  });

  it('ends at once when the caller stops', async () => {
    const receiver = await startHttpReceiver();
    receiver.answerAlways('hang');
    const stop = new AbortController();
    const pending = poster()(receiver.url, 30_000, stop.signal);
    await receiver.waitForRequests(1);
    stop.abort();
    expect(await pending).toEqual({ refused: false, reason: 'stopped before there was an answer' });
  });
});

describe('6.16 destinations', () => {
  const PRIVATE = [
    'http://169.254.169.254/latest',
    'http://127.0.0.1',
    'http://[::1]',
    'http://[::ffff:127.0.0.1]',
    'http://[::127.0.0.1]',
    'http://[64:ff9b::7f00:1]',
    'http://0x7f000001',
    'http://2130706433',
    'http://017700000001',
    'http://127.1',
    'http://0',
    'http://localhost',
    'http://localhost.',
    'http://a.localhost',
    'http://10.0.0.1',
    'http://172.16.0.1',
    'http://192.168.1.1',
    'http://100.64.0.1',
    'http://[fc00::1]',
    'http://[fe80::1]',
    'http://１２７.0.0.1',
  ];
  const NEVER = [
    'file:///etc/passwd',
    'gopher://example.com',
    'ftp://example.com',
    'https://user:pass@example.com',
    'https://user@example.com',
    'https://example.com/a\r\nX: y',
    'https://exa\tmple.com',
    ' https://example.com',
    'nonsense',
    '',
  ];

  it('that are private, in any spelling, are refused before anything is sent', async () => {
    const post = poster({});
    for (const url of PRIVATE) {
      expect(() => checkUrl(url), url).toThrow(/not a public address|this machine/);
      expect(await post(url), url).toMatchObject({ refused: true });
      expect(checkUrl(url, { allowPrivate: true }), url).toBeInstanceOf(URL);
    }
  });

  it('that are no plain web addresses are refused, private ones allowed or not, without showing them', async () => {
    for (const url of NEVER) {
      for (const allowPrivate of [true, false]) expect(() => checkUrl(url, { allowPrivate }), url).toThrow(/^the URL/);
      expect(JSON.stringify(await poster()(url)), url).not.toMatch(/passwd|pass@|user@|user:/);
    }
  });

  it('that are public are let through', () => {
    for (const url of [
      'https://oapi.dingtalk.com/robot/send?access_token=x',
      'https://hooks.slack.com/a',
      'http://8.8.8.8',
      'https://[2606:4700::1111]',
      'http://[64:ff9b::808:808]',
    ]) {
      expect(checkUrl(url).protocol).toMatch(/^https?:$/);
    }
  });

  it('whose name resolves to a private address are refused, be it one of several', async () => {
    for (const addresses of [['127.0.0.1'], ['93.184.216.34', '10.0.0.1'], ['::ffff:10.0.0.1']]) {
      expect(await poster({ lookup: always(...addresses) })('http://hooks.example.com/')).toMatchObject({
        refused: true,
        reason: expect.stringContaining('is not a public address'),
      });
    }
  });

  it('whose name resolves to a private address only at the second look-up are refused then', async () => {
    const receiver = await startHttpReceiver();
    const answers = [always('192.0.2.1'), always('127.0.0.1')];
    let asked = 0;
    const lookup: Lookup = (...args) => answers[Math.min(asked++, 1)]!(...args);
    const post = poster({ lookup });
    const url = `http://hooks.example.com:${receiver.port}/`;
    await post(url, 100);
    expect(await post(url, 1_000)).toMatchObject({ refused: true });
    expect(asked).toBe(2);
    expect(receiver.requests).toEqual([]);
  });

  it('inside the own network are reached where private addresses are allowed', async () => {
    const receiver = await startHttpReceiver();
    const post = poster({ allowPrivate: true, lookup: always('127.0.0.1') });
    expect(await post(`http://hooks.internal:${receiver.port}/`)).toMatchObject({ status: 200 });
  });
});
