/** The code of a call that its own caller broke off. `track` sets it; others may too, in any case of letters. */
export const CLIENT_CANCELLED = 'CLIENT_CANCELLED';
/** The code of a call that took longer than its caller's deadline. Counts as a failure. */
export const TIMEOUT = 'TIMEOUT';

/** Codes that never count, whatever the policy says: a user who walks away must not blame the channel. */
export const DEFAULT_IGNORED_CODES: readonly string[] = [CLIENT_CANCELLED];

/** Whether outcomes with this code are ignored without any policy; upper and lower case are the same. */
export function isIgnoredByDefault(code: string | undefined): boolean {
  return code !== undefined && DEFAULT_IGNORED_CODES.includes(code.toUpperCase());
}
