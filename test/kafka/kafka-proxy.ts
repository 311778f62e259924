import { startRelay } from '../support/relay.js';

/** Requests by their number in Kafka's protocol. */
export const FETCH = 1;
export const FIND_COORDINATOR = 10;

export type KafkaProxy = {
  port: number;
  /** Answers to this kind of request stay away from now on: a broker that is connected, says all else, and yet gives nothing. */
  swallow(api: number): void;
  /** The same for all kinds. */
  freeze(): void;
  /** FindCoordinator is answered with this error instead. */
  failCoordinator(code: number): void;
  /** As if nothing had been; what was swallowed is gone. */
  heal(): void;
  /** Answers that were swallowed or changed. */
  spoiled(): number;
  /** Nobody listens any more, and what is connected is cut, until {@link KafkaProxy.accept}. */
  refuse(): Promise<void>;
  accept(): Promise<void>;
};

/** Stands before a broker whose advertised address leads here, and knows its protocol as far as it must to spoil some answers. */
export async function startKafkaProxy({ port: target }: { port: number }): Promise<KafkaProxy> {
  let swallowed: number | 'all' | undefined;
  let coordinatorError = 0;
  let spoiled = 0;

  /** The answer as it goes on; nothing, if it does not. FindCoordinator: correlation id, throttle time (from v1 on), error. */
  function spoil(answer: Buffer, api = -1, version = 0): Buffer | undefined {
    if (swallowed === 'all' || api === swallowed) {
      spoiled += 1;
      return undefined;
    }
    if (api === FIND_COORDINATOR && coordinatorError !== 0) {
      spoiled += 1;
      answer.writeInt16BE(coordinatorError, version >= 1 ? 12 : 8);
    }
    return answer;
  }

  const relay = await startRelay(
    () => target,
    ({ client, server }) => {
      const asked = new Map<number, { api: number; version: number }>();
      client.on('close', () => server.destroy());
      server.on('close', () => client.destroy());
      client.on(
        'data',
        frames((request) => {
          asked.set(request.readInt32BE(8), { api: request.readInt16BE(4), version: request.readInt16BE(6) });
          server.write(request);
        }),
      );
      server.on(
        'data',
        frames((answer) => {
          const id = answer.readInt32BE(4);
          const { api, version } = asked.get(id) ?? {};
          asked.delete(id);
          const goesOn = spoil(answer, api, version);
          if (goesOn) client.write(goesOn);
        }),
      );
    },
  );
  return {
    ...{ port: relay.port, refuse: relay.refuse, accept: relay.accept },
    swallow: (api) => {
      swallowed = api;
    },
    freeze: () => {
      swallowed = 'all';
    },
    failCoordinator: (code) => {
      coordinatorError = code;
    },
    heal: () => {
      swallowed = undefined;
      coordinatorError = 0;
    },
    spoiled: () => spoiled,
  };
}

/** Cuts a stream where Kafka does: a length of four bytes, and so many bytes. */
function frames(use: (frame: Buffer) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0);
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= 4 && rest.length >= rest.readInt32BE(0) + 4) {
      const end = rest.readInt32BE(0) + 4;
      use(Buffer.from(rest.subarray(0, end)));
      rest = rest.subarray(end);
    }
  };
}
