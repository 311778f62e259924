import type { Evidence, Transition } from '../domain/transition.js';

/** One block as it would have been. Times in ms by the clock of the log. */
export type Block = {
  readonly from: number;
  /** When it would have ended, or would end if the past went on. */
  until: number;
  /** Its end lies within what was read. */
  ended: boolean;
  /** `success-rate`, … as in transitions. */
  readonly reason: string;
  /** 1: the first of its incident; 2: the first relapse. */
  readonly trips: number;
  readonly decision: Pick<Transition, 'size' | 'recorded' | 'succeeded' | 'threshold'>;
  /** Codes of the failures that decided, most frequent first. */
  readonly codes: readonly (readonly [code: string, times: number])[];
  /** Outcomes that came during it. */
  calls: number;
  failures: number;
};

/** From the first block until the channel has held. */
export type Incident = {
  readonly channel: string;
  readonly id: string;
  /** Mode `observe`: only told, and only its first block. */
  readonly observed: boolean;
  readonly blocks: Block[];
  /** When it had held; absent if it had not by the end of what was read. */
  heldAt?: number;
};

/** Blocks kept: beyond it they are only counted. */
const BLOCKS_MOST = 20_000;
const CODES_MOST = 5;

/** What would have happened, gathered from transitions. */
export class Incidents {
  readonly #most: number;
  readonly #all: Incident[] = [];
  readonly #current = new Map<string, Incident>();
  #kept = 0;
  readonly #paused = new Map<string, number>();
  /** Blocks that are not kept. */
  omitted = 0;
  /** Times in which a channel would have been hidden because the third party asked to wait: no incidents. */
  readonly pauses = { times: 0, ms: 0 };
  /** Blocks that would not have been, because too few sources failed. */
  suspicions = 0;

  constructor(most = BLOCKS_MOST) {
    this.#most = most;
  }

  take(transition: Transition): void {
    const { channel, at } = transition;
    const kind: string = transition.kind;
    const current = this.#current.get(channel);
    if (kind === 'suspected') this.suspicions += 1;
    if (kind === 'paused') {
      this.pauses.times += 1;
      this.#paused.set(channel, at);
    }
    if (kind === 'resumed') {
      this.pauses.ms += at - (this.#paused.get(channel) ?? at);
      this.#paused.delete(channel);
    }
    if (kind === 'blocked' || kind === 'relapsed' || kind === 'observed') this.#begin(transition, current);
    else if (current === undefined) return;
    else if (kind === 'held') {
      current.heldAt = at;
      this.#current.delete(channel);
    } else if (kind === 'recovered') {
      const block = current.blocks.at(-1)!;
      block.until = at;
      block.ended = true;
      // A trial, or a reminder of a block that nobody released: it is hidden from most, or from all, for so much longer.
    } else if (kind === 'half-open' || kind === 'extended') current.blocks.at(-1)!.until = transition.until;
  }

  /** Outcomes during the channel's last block (or a pause, which is nobody's). */
  blocked(channel: string, calls: number, failures: number): void {
    const block = this.#current.get(channel)?.blocks.at(-1);
    if (block === undefined || this.#paused.has(channel)) return;
    block.calls += calls;
    block.failures += failures;
  }

  /** All of them by their beginning. @param endMs the end of what was read: a block that is only observed tells no end of its own */
  list(endMs: number): readonly Incident[] {
    for (const from of this.#paused.values()) this.pauses.ms += endMs - from;
    this.#paused.clear();
    for (const { observed, blocks } of this.#all)
      if (observed) for (const block of blocks) block.ended = block.until <= endMs;
    return this.#all.sort((a, b) => a.blocks[0]!.from - b.blocks[0]!.from || (a.channel < b.channel ? -1 : 1));
  }

  #begin(transition: Transition, current: Incident | undefined): void {
    const { kind, channel, incident: id, at, until, reason, trips, size, recorded, succeeded, threshold } = transition;
    if (this.#kept >= this.#most) {
      this.omitted += 1;
      this.#current.delete(channel);
      return;
    }
    this.#kept += 1;
    const block: Block = {
      ...{ from: at, until, ended: false, reason, trips, codes: codesOf(transition.evidence), calls: 0, failures: 0 },
      decision: { size, recorded, succeeded, threshold },
    };
    if (kind === 'relapsed' && current !== undefined && current.id === id) {
      // Out of a trial there is no end in between.
      const before = current.blocks.at(-1)!;
      if (!before.ended && before.from < at) Object.assign(before, { until: at, ended: true });
      current.blocks.push(block);
      return;
    }
    const incident: Incident = { channel, id, observed: kind === 'observed', blocks: [block] };
    this.#all.push(incident);
    this.#current.set(channel, incident);
  }
}

function codesOf(evidence: readonly Evidence[]): [code: string, times: number][] {
  const times = new Map<string, number>();
  for (const { code } of evidence) if (code !== undefined) times.set(code, (times.get(code) ?? 0) + 1);
  return [...times].sort(([, a], [, b]) => b - a).slice(0, CODES_MOST);
}
