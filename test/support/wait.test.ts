import { expect, test } from 'vitest';
import { until } from './wait.js';

test('until resolves to the first value that is accepted', async () => {
  let asked = 0;
  const value = await until(() => ++asked, { what: 'three', accept: (n) => n === 3, intervalMs: 1 });
  expect(value).toBe(3);
});

test('until takes an error for "not yet"', async () => {
  let asked = 0;
  const fn = () => {
    asked += 1;
    if (asked < 3) throw new Error('away');
    return 'here';
  };
  expect(await until(fn, { what: 'it', intervalMs: 1 })).toBe('here');
});

test('until tells what it waited for and the last value seen', async () => {
  const waiting = until(() => ({ state: 'closed' }), {
    what: 'the block',
    accept: ({ state }) => state === 'open',
    timeoutMs: 50,
    intervalMs: 1,
  });
  await expect(waiting).rejects.toThrow("waited 50 ms for the block; last seen: { state: 'closed' }");
});

test('until gives up on a question that is never answered', async () => {
  const waiting = until(() => new Promise<boolean>(() => {}), { what: 'an answer', timeoutMs: 50 });
  await expect(waiting).rejects.toThrow('last seen: nothing, it never answered');
});
