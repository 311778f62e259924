import { request } from 'undici';
import { expect, test } from 'vitest';
import { startHttpReceiver } from './http-receiver.js';

test('the receiver records a request and answers with what was asked for, then with its default', async () => {
  const receiver = await startHttpReceiver();
  receiver.answerNext({ status: 429, headers: { 'retry-after': '7' }, body: 'slow down' });
  const first = await request(`${receiver.url}/hook?x=1`, {
    method: 'POST',
    body: '{"a":1}',
    headers: { 'x-id': '9' },
  });
  expect([first.statusCode, first.headers['retry-after'], await first.body.text()]).toEqual([429, '7', 'slow down']);
  const second = await request(receiver.url);
  expect([second.statusCode, await second.body.text()]).toEqual([200, 'ok']);
  const [recorded] = await receiver.waitForRequests(2);
  expect(recorded).toMatchObject({ method: 'POST', path: '/hook?x=1', body: '{"a":1}', headers: { 'x-id': '9' } });
});

test('an answer may depend on the request', async () => {
  const receiver = await startHttpReceiver();
  receiver.answerAlways(({ path }) => ({ status: path === '/ok' ? 204 : 500 }));
  const statuses = [];
  for (const path of ['/ok', '/bad']) {
    const { statusCode, body } = await request(receiver.url + path);
    await body.dump();
    statuses.push(statusCode);
  }
  expect(statuses).toEqual([204, 500]);
});

test('cut takes the request and closes without a byte', async () => {
  const receiver = await startHttpReceiver();
  receiver.answerNext('cut');
  await expect(request(receiver.url, { method: 'POST', body: 'x' })).rejects.toThrow('other side closed');
  expect(receiver.requests).toHaveLength(1);
});

test('hang takes the request and never answers', async () => {
  const receiver = await startHttpReceiver();
  receiver.answerNext('hang');
  await expect(request(receiver.url, { signal: AbortSignal.timeout(200) })).rejects.toThrow(/timeout/);
  expect(receiver.requests).toHaveLength(1);
});

test('trickle sends headers and a body that never ends', async () => {
  const receiver = await startHttpReceiver();
  receiver.answerNext({ trickle: { everyMs: 10 } });
  const { statusCode, body } = await request(receiver.url, { signal: AbortSignal.timeout(300) });
  let received = 0;
  const reading = async () => {
    for await (const chunk of body) received += chunk.length;
  };
  await expect(reading()).rejects.toThrow(/timeout/);
  expect(statusCode).toBe(200);
  expect(received).toBeGreaterThan(2);
});

test('huge sends exactly so many bytes', async () => {
  const receiver = await startHttpReceiver();
  receiver.answerNext({ huge: { bytes: 5_000_001 } });
  const { body } = await request(receiver.url);
  expect((await body.arrayBuffer()).byteLength).toBe(5_000_001);
});
