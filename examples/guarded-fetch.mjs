// `fetch` behind a guard: not called while the channel is blocked, broken off when it takes too long, and every outcome published.
//
//   const guarded = guardFetch(fuse, { timeout: 3_000 });
//   const response = await guarded('ALIPAY', 'https://…', { method: 'POST', body });

/**
 * Whether an answer speaks for the channel. 5xx says that it is broken, and 429 that it takes no more work from us: calling on makes both
 * worse. The other 4xx say that this one request was wrong (a refused card, an unknown id): the channel works, and one caller's bad
 * input must not block it for everybody. Where a third party says "broken" with 200 or 400 and a code in the body, read the body inside
 * the guarded function and judge by that code instead.
 */
export const speaksForTheChannel = (status) => status < 500 && status !== 429;

/** What people see beside a failure. */
export const codeOf = (status) => (status < 400 ? undefined : `HTTP_${status}`);

/** No answer at all (refused, reset, no such host) is a failure by itself: fetch throws. The body may be read after the guard is done. */
export function guardFetch(fuse, { timeout = 5_000, fallback } = {}) {
  return (channel, url, init = {}) =>
    fuse.guard(channel, ({ signal }) => fetch(url, { ...init, signal: either(init.signal, signal) }), {
      success: ({ status }) => speaksForTheChannel(status),
      // fetch hides why it failed in the cause: ECONNREFUSED tells people more than TypeError.
      code: ({ result, error }) => (result ? codeOf(result.status) : error?.cause?.code),
      timeout,
      fallback,
    });
}

/** The caller's own signal goes on working; what it breaks off does not blame the channel. */
const either = (own, guards) => (own ? AbortSignal.any([own, guards]) : guards);
