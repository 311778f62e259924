/** Where lines for the person on call go; pino fits. */
export type Log = {
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
};

export const SILENT: Log = { info() {}, warn() {} };

/** An outage fails in many places many times a second; one line a second is enough, with the number of those that were left out. */
export function quietLog(log: Log, everyMs = 1_000): (facts: object, message: string) => void {
  let lastAt = Number.NEGATIVE_INFINITY;
  let leftOut = 0;
  return (facts, message) => {
    const now = performance.now();
    if (now - lastAt < everyMs) {
      leftOut += 1;
      return;
    }
    log.warn(leftOut > 0 ? { ...facts, leftOut } : facts, message);
    lastAt = now;
    leftOut = 0;
  };
}
