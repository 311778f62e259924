// A checkout service on Fastify: GET /channels offers what is visible, POST /pay/:channel calls the third party and publishes how the
// call ended. Needs a Redis (FUSELINE_REDIS_URL) and `fuseline start` somewhere. PAY_URL: where the payment gateways answer.
import Fastify from 'fastify';
import { createFuseline } from 'fuseline';

const channels = [
  { channel: 'ALIPAY', label: 'Alipay' },
  { channel: 'WECHAT', label: 'WeChat Pay' },
  { channel: 'STRIPE', label: 'Card' },
];
const fuse = await createFuseline({ source: 'checkout-fastify', channels: channels.map(({ channel }) => channel) });
const app = Fastify();

app.get('/channels', () => fuse.visible(channels));

app.post('/pay/:channel', async ({ params: { channel } }, reply) => {
  // A page may be older than the block: "hidden" is a matter of what is offered, so a late click is still tried.
  const answer = await fuse.track(channel, () => callGateway(channel), {
    success: ({ code }) => code === 'OK',
    code: ({ result }) => result?.code,
  });
  return reply.code(answer.code === 'OK' ? 200 : 502).send(answer);
});

async function callGateway(channel) {
  const response = await fetch(`${process.env.PAY_URL}/${channel}`, {
    method: 'POST',
    signal: AbortSignal.timeout(3_000),
  });
  return response.json();
}

app.addHook('onClose', () => fuse.close());
for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => app.close());
await app.listen({ port: Number(process.env.PORT ?? 3000), host: '127.0.0.1' });
console.log(`checkout on port ${app.server.address().port}`);
