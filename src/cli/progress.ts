import { roughly } from './output.js';

const EVERY_MS = 200;
const BAR = 30;

/** `done` of `total` in any unit; without `total` nobody knows how much there is. */
export type Progress = { readonly read: number; readonly done: number; readonly total?: number };

/** A bar on a terminal's standard error, and nothing at all elsewhere. */
export function showProgress(look: () => Progress): { end(): void } {
  if (!process.stderr.isTTY) return { end() {} };
  const startedAt = performance.now();
  const timer = setInterval(() => {
    process.stderr.write(`\r\u001b[K${bar(look(), performance.now() - startedAt)}`);
  }, EVERY_MS).unref();
  return {
    end() {
      clearInterval(timer);
      process.stderr.write('\r\u001b[K');
    },
  };
}

/** One line of the bar, after so many ms. */
export function bar({ read, done, total }: Progress, elapsedMs: number): string {
  const rate = `${read.toLocaleString('en-US')} read, ${Math.round((read / Math.max(1, elapsedMs)) * 1_000).toLocaleString('en-US')}/s`;
  if (total === undefined || total <= 0) return rate;
  const share = Math.min(1, done / total);
  const full = Math.round(share * BAR);
  const left = share > 0 ? `, ${roughly((elapsedMs / share) * (1 - share))} left` : '';
  return `[${'#'.repeat(full)}${'.'.repeat(BAR - full)}] ${Math.floor(share * 100)} %  ${rate}${left}`;
}
