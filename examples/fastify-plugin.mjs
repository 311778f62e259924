// Fuseline as a Fastify plugin: `app.fuse` in every route, closed with the app, and 503 with Retry-After where a guard refuses.
//
//   npm install fuseline fastify
//   await app.register(fuseline, { source: 'checkout' });
//   app.post('/pay/:channel', ({ params }) => app.fuse.guard(params.channel, …));
import { createFuseline } from 'fuseline';

/** Options are those of `createFuseline`; or `fuse`, which then stays yours to close. */
export async function fuseline(app, { fuse, ...options } = {}) {
  const own = fuse ? undefined : await createFuseline(options);
  app.decorate('fuse', fuse ?? own);
  app.addHook('onClose', () => own?.close());
  app.setErrorHandler((error, _request, reply) => {
    if (error.code !== 'CHANNEL_BLOCKED') throw error; // on to Fastify's own handler
    if (error.until > 0) reply.header('retry-after', Math.max(1, Math.ceil((error.until - Date.now()) / 1_000)));
    return reply.code(503).send({ code: error.code, channel: error.channel });
  });
}

// For the whole app, not only for routes registered inside: what the package fastify-plugin does.
fuseline[Symbol.for('skip-override')] = true;
