import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { inject } from 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    /** Where {@link fromDesk} asks. */
    desk: string;
  }
}

/** Gets what is made once for all test files, by its name. Waits until it is ready; rejects with the reason when it cannot be made. */
export async function fromDesk<T>(name: string): Promise<T> {
  const answer = await fetch(`${inject('desk')}/${name}`);
  const { value, error } = (await answer.json()) as { value?: T; error?: string };
  if (value === undefined) throw new Error(error);
  return value;
}

/** Test files are processes of their own: what is dear is made here, when the first of them asks, and others get the same. */
export async function openDesk(
  makers: Record<string, () => Promise<unknown>>,
): Promise<{ url: string; close: () => void }> {
  const server = createServer(async ({ url }, response) => {
    const answer = await makers[url!.slice(1)]!().then(
      (value) => ({ value }),
      (error: Error) => ({ error: error.message }),
    );
    response.end(JSON.stringify(answer));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
