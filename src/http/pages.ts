import type { Registry } from 'prom-client';
import type { HttpServerOptions, Page } from './server.js';

/** How a process is. `live`: false asks for a restart; `ready`: false when a part does not do its work, for whatever reason. */
export type Report = {
  readonly live: boolean;
  readonly ready: boolean;
  readonly checks: Readonly<Record<string, { readonly ok: true } | { readonly ok: false; readonly stuck: boolean }>>;
};

export type PageSources = {
  readonly health: () => Report;
  readonly registry: Pick<Registry, 'metrics' | 'contentType'>;
  /** Called before each scrape, to fill in what is only read then. */
  readonly beforeScrape: () => void;
};

/**
 * The three pages of every process.
 *
 * - `/healthz`: 200 while the event loop turns and nothing is stuck; 503 asks for a restart. Redis being away is no reason for one.
 * - `/readyz`: 200 while every role does its work, judged by its progress; 503 with the reasons otherwise.
 * - `/metrics`: Prometheus text.
 */
export function healthPages({ health, registry, beforeScrape }: PageSources): HttpServerOptions['pages'] {
  return {
    '/healthz': () => {
      const { live, checks } = health();
      const stuck = Object.entries(checks).filter(([, one]) => !one.ok && one.stuck);
      return json(live, { status: live ? 'alive' : 'stuck', checks: Object.fromEntries(stuck) });
    },
    '/readyz': () => {
      const { ready, checks } = health();
      return json(ready, { status: ready ? 'ready' : 'not ready', checks });
    },
    '/metrics': async () => {
      beforeScrape();
      return { status: 200, type: registry.contentType, body: await registry.metrics() };
    },
  };
}

function json(ok: boolean, value: object): Page {
  return { status: ok ? 200 : 503, type: 'application/json; charset=utf-8', body: `${JSON.stringify(value)}\n` };
}
