const LEAST_MS = 1_000;
const MOST_MS = 3_600_000;
/** The two forms in use; Date.parse alone takes nearly anything (`-1` is a year). */
const HTTP_DATE = /^[A-Z][a-z]{2,8}, \d{1,2}[ -][A-Z][a-z]{2}[ -]\d{2,4} \d{2}:\d{2}:\d{2} GMT$/;

/**
 * Reads a `Retry-After` header: seconds or an HTTP date (RFC 9110, 10.2.3), clamped to 1 s … 1 h. Garbage gives `undefined`, so that
 * the usual back-off applies. `nowMs` should be the answering server's own clock where it told it.
 */
export function parseRetryAfter(header: string | undefined, nowMs: number): number | undefined {
  const text = header?.trim() ?? '';
  if (/^\d{1,12}(\.\d{1,6})?$/.test(text)) return clamp(Number(text) * 1_000);
  if (!HTTP_DATE.test(text)) return undefined;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : clamp(at - nowMs);
}

function clamp(ms: number): number {
  return Math.min(Math.max(ms, LEAST_MS), MOST_MS);
}
