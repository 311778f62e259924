import type { Socket } from 'node:net';
import { type Pair, startRelay } from './relay.js';
import { releaseAtEnd } from './releasers.js';
import { sleep } from './wait.js';

export type TcpProxy = {
  port: number;
  /** `redis://127.0.0.1:<port>` */
  url: string;
  /** Connections accepted so far. */
  accepted(): number;
  /** Bytes that arrive from now on wait this long before they go on, in both directions; 0 ends it. */
  delay(ms: number): void;
  /** Connections stay up and new ones are taken, but no byte passes until {@link TcpProxy.resume}: a frozen peer. */
  pause(): void;
  resume(): void;
  /** Cuts what is connected; whoever connects now gets ECONNREFUSED, until {@link TcpProxy.accept}. */
  refuse(): Promise<void>;
  accept(): Promise<void>;
  cutAll(): void;
  /** Leads to another server from now on, and cuts what is connected: a failover behind one address. */
  retarget(port: number): void;
  /**
   * Lets the next request that matches through, keeps its reply back and cuts that connection: the command has run, the
   * caller cannot know. Resolves when that has happened. The pattern is tried on the bytes as sent, chunk by chunk.
   */
  swallowReplyTo(request: RegExp): Promise<void>;
  stop(): Promise<void>;
};

type Trap = { request: RegExp; sprung: () => void };

/** Stands between a client and a server on 127.0.0.1 and misbehaves as told; stopped at the end of the test. */
export async function startTcpProxy({ port: firstTarget }: { port: number }): Promise<TcpProxy> {
  let target = firstTarget;
  const traps: Trap[] = [];
  let acceptedCount = 0;
  let delayMs = 0;
  let gate = Promise.resolve();
  let openGate: (() => void) | undefined;

  const { port, cutAll, refuse, accept } = await startRelay(() => target, join);

  function join({ client, server }: Pair): void {
    acceptedCount += 1;
    let trap: Trap | undefined;
    const toServer = inOrder(server);
    client.on('data', (chunk: Buffer) => {
      toServer(() => {
        server.write(chunk);
        const index = traps.findIndex(({ request }) => chunk.toString('latin1').search(request) !== -1);
        if (index !== -1) [trap] = traps.splice(index, 1);
      });
    });
    client.on('close', () => toServer(() => server.end()));

    const toClient = inOrder(client);
    server.on('data', (chunk: Buffer) => {
      if (!trap) return toClient(() => client.write(chunk));
      // Only the client's side is cut hard: a reset on the other one could take the request with it before it is read.
      client.destroy();
      server.end();
      trap.sprung();
    });
    server.on('close', () => toClient(() => client.destroySoon()));
  }

  /** Delays and gates what goes to one socket, and keeps its order. */
  function inOrder(to: Socket): (action: () => void) => void {
    let before = Promise.resolve();
    return (action) => {
      const dueAt = performance.now() + delayMs;
      before = before.then(async () => {
        const leftMs = dueAt - performance.now();
        if (leftMs > 0) await sleep(leftMs);
        await gate;
        if (!to.destroyed) action();
      });
    };
  }

  async function stop(): Promise<void> {
    openGate?.();
    await refuse();
  }
  releaseAtEnd(stop);

  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    accepted: () => acceptedCount,
    delay: (ms) => {
      delayMs = ms;
    },
    pause: () => {
      if (openGate) return;
      gate = new Promise((resolve) => {
        openGate = resolve;
      });
    },
    resume: () => {
      openGate?.();
      openGate = undefined;
    },
    ...{ refuse, accept, cutAll },
    retarget: (to) => {
      target = to;
      cutAll();
    },
    swallowReplyTo: (request) => new Promise((resolve) => traps.push({ request, sprung: resolve })),
    stop,
  };
}
