import { constants } from 'node:os';

export type Stop = {
  /** Aborts at the first signal: time to end what is in progress. */
  readonly signal: AbortSignal;
  /** As if a signal had come. */
  request(reason: string): void;
  dispose(): void;
};

/**
 * The first SIGTERM or SIGINT asks for an end in good order; the second one ends the process at once, with the code that shells expect
 * (128 + signal): whoever sends it twice does not want to wait.
 */
export function stopOnSignals(onFirst: (reason: string) => void): Stop {
  const controller = new AbortController();
  const request = (reason: string) => {
    onFirst(reason);
    controller.abort(new Error(reason));
  };
  const onSignal = (name: NodeJS.Signals) => {
    if (controller.signal.aborted) process.exit(128 + constants.signals[name]);
    request(name);
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
  return {
    signal: controller.signal,
    request,
    dispose() {
      process.off('SIGTERM', onSignal);
      process.off('SIGINT', onSignal);
    },
  };
}
