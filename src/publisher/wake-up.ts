/** Runs something later, once: at the soonest time that was asked for. Keeps no process alive. */
export class WakeUp {
  readonly #run: () => void;
  #timer: NodeJS.Timeout | undefined;
  /** What the timer was set to, in ms. */
  #waitMs = Number.POSITIVE_INFINITY;
  #immediate: NodeJS.Immediate | undefined;

  constructor(run: () => void) {
    this.#run = run;
  }

  get isTimed(): boolean {
    return this.#waitMs !== Number.POSITIVE_INFINITY;
  }

  /** After the caller's own turn: making an entry of 500 outcomes takes longer than a call to `publish` may. */
  soon(): void {
    if (this.#immediate) return;
    // Not unref'd: the loop would wait for something else to happen before it came to this.
    this.#immediate = setImmediate(this.#run);
  }

  /** In so many ms at the latest. */
  within(ms: number): void {
    // What is left of a running timer is not looked at, because reading the clock costs more than all the rest.
    if (ms >= this.#waitMs) return;
    clearTimeout(this.#timer);
    this.#waitMs = ms;
    this.#timer = setTimeout(this.#run, ms);
    this.#timer.unref();
  }

  clear(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
    this.#waitMs = Number.POSITIVE_INFINITY;
    this.#immediate = undefined;
  }
}
