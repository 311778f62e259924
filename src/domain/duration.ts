const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** A whole number and a unit, or a bare 0. The same text is in the JSON Schema of the rules. */
export const DURATION_PATTERN = /^(?:0|\d{1,12}(?:ms|s|m|h|d))$/;

/** Longest duration that is understood: a year. Longer ones are mistakes of unit, and would leave the range of Redis' TTLs far later. */
export const DURATION_MOST_MS = 366 * UNITS.d;

/** How a duration is written, for error messages. */
export const DURATION_RULE = 'a whole number with a unit, such as 1500ms, 30s, 30m, 2h or 1d';

/**
 * Milliseconds of `1500ms`, `30s`, `30m`, `2h`, `1d`. A number without a unit is refused (30 what?), except `0`, which needs none.
 * `undefined`: not a duration, or longer than a year.
 */
export function parseDuration(text: unknown): number | undefined {
  if (text === 0) return 0;
  if (typeof text !== 'string' || !DURATION_PATTERN.test(text)) return undefined;
  const unit = (text.match(/[a-z]+$/)?.[0] ?? 'ms') as keyof typeof UNITS;
  const ms = Number.parseInt(text, 10) * UNITS[unit];
  return ms <= DURATION_MOST_MS ? ms : undefined;
}

/** The shortest text that {@link parseDuration} reads back as `ms` (a whole number of milliseconds). */
export function formatDuration(ms: number): string {
  if (ms === 0) return '0';
  for (const unit of ['d', 'h', 'm', 's'] as const) {
    if (ms % UNITS[unit] === 0) return `${ms / UNITS[unit]}${unit}`;
  }
  return `${ms}ms`;
}
