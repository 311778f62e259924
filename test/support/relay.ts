import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { releaseAtEnd } from './releasers.js';

/** A client that has connected, and the connection made for it to the server behind. */
export type Pair = { client: Socket; server: Socket };

export type Relay = {
  port: number;
  cutAll(): void;
  /** Cuts what is connected; whoever connects now gets ECONNREFUSED, until {@link Relay.accept}. */
  refuse(): Promise<void>;
  accept(): Promise<void>;
};

/**
 * Listens on 127.0.0.1 in front of a server there; stopped at the end of the test.
 *
 * @param target the server's port, asked for each connection
 * @param join passes bytes on between the two
 */
export async function startRelay(target: () => number, join: (pair: Pair) => void): Promise<Relay> {
  const pairs = new Set<Pair>();

  const listener = createServer((client) => {
    const pair = { client, server: connect({ port: target(), host: '127.0.0.1' }) };
    pairs.add(pair);
    for (const socket of [pair.client, pair.server]) {
      socket.setNoDelay(true);
      socket.on('error', () => socket.destroy());
    }
    pair.server.on('close', () => pairs.delete(pair));
    join(pair);
  });

  function cutAll(): void {
    for (const { client, server } of pairs) {
      client.destroy();
      server.destroy();
    }
  }

  async function listen(port: number): Promise<void> {
    if (listener.listening) return;
    listener.listen(port, '127.0.0.1');
    await once(listener, 'listening');
  }

  async function refuse(): Promise<void> {
    if (!listener.listening) return;
    const closed = once(listener, 'close');
    listener.close();
    cutAll();
    await closed;
  }

  await listen(0);
  const { port } = listener.address() as AddressInfo;
  releaseAtEnd(refuse);
  return { port, cutAll, refuse, accept: () => listen(port) };
}
