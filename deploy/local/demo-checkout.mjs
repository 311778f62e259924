// One instance of the demo's checkout service, as a service of yours would be: it shows the channels that are visible, calls the one
// that the customer chose, and publishes how the call ended. It knows nothing of workers, rules or Redis keys.

import { createFuseline } from '../../dist/src/index.js';

const CALLS_PER_SECOND = 40;
const channels = ['ALIPAY', 'WECHAT', 'STRIPE'];
const broken = new Set();
const calls = { total: 0, failed: 0 };
let offered = channels;

const fuse = await createFuseline({ source: `checkout-${process.argv[2]}`, channels });

/** The third party. A sick one answers 200 with a code in the body, which is why `success` has to be said. */
function pay(channel) {
  return { status: 200, code: broken.has(channel) ? 'SYSTEM_ERROR' : 'OK' };
}

function customer() {
  offered = fuse.visible(channels);
  const channel = offered[calls.total % offered.length];
  const answer = fuse.track(channel, () => pay(channel), {
    success: ({ code }) => code === 'OK',
    code: ({ result }) => result?.code,
  });
  calls.total += 1;
  if (answer.code !== 'OK') calls.failed += 1;
}

const loop = setInterval(customer, 1_000 / CALLS_PER_SECOND);
const report = setInterval(() => process.send({ calls, offered }), 100);
fuse.on('transition', ({ kind, channel }) => process.send({ transition: kind, channel, at: Date.now() }));

process.on('message', async ({ breaks, heals, end }) => {
  if (breaks) broken.add(breaks);
  if (heals) broken.delete(heals);
  if (!end) return;
  clearInterval(loop);
  clearInterval(report);
  await fuse.close();
  process.disconnect();
});
process.send({ ready: true });
