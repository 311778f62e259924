import { AUDIT_KEPT, AUDIT_KEPT_MS } from '../channel/audit.js';
import { INCIDENTS_KEPT, INCIDENTS_KEPT_MS } from '../channel/incidents.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';

/** Most that one chore removes in a run: tidying must never be what makes a shared Redis slow. */
export const HOUSEKEEPING_BATCH = 500;

/** One kind of tidying. `run` removes at most {@link HOUSEKEEPING_BATCH} things and resolves to how many. */
export type Chore = { readonly name: string; readonly run: () => Promise<number> };

/**
 * Runs every chore once; what each removed, by name. One that fails does not keep the others from running.
 *
 * @throws {AggregateError} the failures, after all have run, so that the job is retried with back-off
 */
export async function housekeep(chores: readonly Chore[]): Promise<Record<string, number>> {
  const report: Record<string, number> = {};
  const failures: unknown[] = [];
  for (const chore of chores) {
    try {
      report[chore.name] = await chore.run();
    } catch (error) {
      failures.push(new Error(`housekeeping of ${chore.name} failed`, { cause: error }));
    }
  }
  if (failures.length > 0) throw new AggregateError(failures, failures.map(String).join('; '));
  return report;
}

/** The chores of the channels' Redis; the outcome log brings its own, for it may lie on another. */
export function redisChores(client: RedisClient, keys: Keys): Chore[] {
  const trim = async (key: string, most: number, keptMs: number) => {
    const [seconds] = await client.time();
    const oldest = Number(seconds) * 1000 - keptMs;
    return (
      (await client.xtrim(key, 'MINID', '~', oldest, 'LIMIT', HOUSEKEEPING_BATCH)) + (await cap(client, key, most))
    );
  };
  return [
    { name: 'old incidents', run: () => trim(keys.incidents, INCIDENTS_KEPT, INCIDENTS_KEPT_MS) },
    { name: 'old audit entries', run: () => trim(keys.audit, AUDIT_KEPT, AUDIT_KEPT_MS) },
  ];
}

/** Cuts a stream's oldest entries. Whole nodes only (`~`): exact trimming costs more than the few entries are worth. */
export function cap(client: RedisClient, key: string, most: number): Promise<number> {
  return client.xtrim(key, 'MAXLEN', '~', most, 'LIMIT', HOUSEKEEPING_BATCH);
}
