/** What one part of a process says about itself. `stuck`: only a restart will cure it; what waits for Redis is not. */
export type Condition =
  | { readonly ok: true }
  | { readonly ok: false; readonly reason: string; readonly stuck: boolean };

export type HealthReport = {
  /** False when something is stuck: the supervisor should restart the process. */
  readonly live: boolean;
  /** False when something does not do its work, for whatever reason. */
  readonly ready: boolean;
  readonly checks: Readonly<Record<string, Condition>>;
};

/** The conditions of all parts of a process, asked for when somebody wants to know. */
export class Health {
  readonly #probes = new Map<string, () => Condition>();

  /** Replaces the probe of that name. */
  watch(name: string, probe: () => Condition): void {
    this.#probes.set(name, probe);
  }

  report(): HealthReport {
    const checks = Object.fromEntries([...this.#probes].map(([name, probe]) => [name, probe()]));
    const all = Object.values(checks);
    return { live: all.every((one) => one.ok || !one.stuck), ready: all.every(({ ok }) => ok), checks };
  }
}

export const FINE: Condition = { ok: true };

/** Not doing its work, for a reason that a restart would not cure. */
export function waiting(reason: string): Condition {
  return { ok: false, reason, stuck: false };
}

/** `progressAt`, in `performance.now()`: the last moment at which work was done or there was none. `paused`: why it holds still. */
export type Progress = { readonly progressAt: number; readonly paused?: string };

/**
 * Tells a stall from a pause: time during which a part held still on purpose (Redis away) does not count, also after it has ended.
 * Progress and not connections are looked at, because a consumer can be connected and yet do nothing for ever.
 */
export class StallWatch {
  readonly #notReadyMs: number;
  readonly #stuckMs: number;
  readonly #what: string;
  #movedAt: number;
  #paused: string | undefined;

  /** `what` completes "… for 31 s". */
  constructor(what: string, limits: { readonly notReadyMs: number; readonly stuckMs: number }, nowMs: number) {
    this.#what = what;
    this.#notReadyMs = limits.notReadyMs;
    this.#stuckMs = limits.stuckMs;
    this.#movedAt = nowMs;
  }

  /** Called about once a second, so that a pause is seen while it lasts. */
  look({ progressAt, paused }: Progress, nowMs: number): void {
    this.#paused = paused;
    this.#movedAt = Math.max(this.#movedAt, progressAt, paused === undefined ? 0 : nowMs);
  }

  condition(nowMs: number): Condition {
    if (this.#paused !== undefined) return waiting(this.#paused);
    const stillMs = nowMs - this.#movedAt;
    if (stillMs <= this.#notReadyMs) return FINE;
    return {
      ok: false,
      reason: `${this.#what} for ${Math.round(stillMs / 1_000)} s`,
      stuck: stillMs > this.#stuckMs,
    };
  }
}

/** Watches a part's progress until the signal, and puts what it sees under `name`. Does not keep the process alive. */
export function watchProgress(
  health: Health,
  name: string,
  watch: StallWatch,
  progress: () => Progress,
  signal: AbortSignal,
): void {
  const look = () => watch.look(progress(), performance.now());
  const timer = setInterval(look, 1_000).unref();
  signal.addEventListener('abort', () => clearInterval(timer), { once: true });
  health.watch(name, () => {
    look();
    return watch.condition(performance.now());
  });
}
