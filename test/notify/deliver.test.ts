import { expect, it } from 'vitest';
import { createPoster } from '../../src/alert/post.js';
import { render } from '../../src/alert/render.js';
import { createDeliver } from '../../src/notify/deliver.js';
import { createTally } from '../../src/notify/tally.js';
import { createTold } from '../../src/notify/told.js';
import { silent } from '../../src/observe/log.js';
import { blocked } from '../alert/samples.js';
import { bench } from '../channel/support.js';
import { startHttpReceiver } from '../support/http-receiver.js';
import { sleep } from '../support/wait.js';
import { receiver, rulesWith } from './harness.js';

it('a process that stood still after it was given its turn gives it back unsent: newer news may have been told meanwhile', async () => {
  const { client, keys } = await bench();
  const http = await startHttpReceiver();
  const ops = receiver('ops', http.url);
  const told = createTold(client, keys);
  let stillMs = 3_050;
  const slowly: typeof told = {
    ...told,
    claim: async (...asked) => {
      const claim = await told.claim(...asked);
      await sleep(stillMs);
      return claim;
    },
  };
  const poster = createPoster({ allowPrivate: true });
  const deliver = createDeliver({
    told: slowly,
    rules: rulesWith(ops),
    poster,
    tally: createTally(),
    log: silent,
    env: {},
  });
  const transition = blocked();
  await told.offer('ops', transition);
  const data = { v: 1, receiver: 'ops', id: 'one', transition, message: render(transition, ops) };
  const job = {
    id: 'one',
    name: 'blocked',
    data,
    attempt: 1,
    attempts: 5,
    starts: 1,
    signal: new AbortController().signal,
  };
  expect(await deliver(job)).toEqual({ verdict: 'later', delayMs: 0 });
  expect(http.requests).toEqual([]);
  stillMs = 0;
  expect(await deliver({ ...job, starts: 2 })).toEqual({ verdict: 'done' });
  expect(http.requests).toHaveLength(1);
  await poster.close();
});
