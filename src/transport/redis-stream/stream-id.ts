/** The id before every entry of a stream. */
export const START = '0-0';

/** Whether stream id `a` lies before `b`. Both halves are 64 bits wide, beyond what a number holds exactly. */
export function isBefore(a: string, b: string): boolean {
  const [aMs, aSeq] = halves(a);
  const [bMs, bSeq] = halves(b);
  return aMs === bMs ? aSeq < bSeq : aMs < bMs;
}

/** The time in an id, ms, by the clock of the server that took the entry. */
export function msOf(id: string): number {
  return Number(id.slice(0, id.indexOf('-')));
}

/** The first id that is `ms` older than `id`; never below {@link START}. */
export function rewound(id: string, ms: number): string {
  return `${Math.max(0, msOf(id) - ms)}-0`;
}

function halves(id: string): [ms: bigint, seq: bigint] {
  const dash = id.indexOf('-');
  return [BigInt(id.slice(0, dash)), BigInt(id.slice(dash + 1))];
}
