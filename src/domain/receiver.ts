/**
 * A configured destination of alerts, as the rules say it. `url`, `secret` are kept as references (`env:NAME`, `file:/path`) or
 * literals; only the process that delivers resolves them, so that no secret travels in a job or a log.
 */
export type Receiver = {
  /** `[a-z0-9-]{1,64}`: names its queue, `deliver-<name>`. */
  readonly name: string;
  readonly type: 'webhook' | 'slack' | 'dingtalk';
  readonly url: string;
  readonly secret?: string;
  readonly locale: 'en' | 'zh-CN';
  /** IANA name, for the times in the text. */
  readonly timeZone: string;
  /** Mobile numbers (DingTalk) or user ids (Slack) to mention on blocks. */
  readonly mentions: readonly string[];
  /** DingTalk's keyword security rule: always put into title and text. */
  readonly keyword?: string;
  /** One deadline for a whole delivery attempt: connect, headers and body. */
  readonly timeoutMs: number;
};

/** Which transitions go where. Every condition given must match; a route without conditions matches all. Every matching route delivers. */
export type Route = {
  readonly match: { readonly group?: string; readonly channel?: string; readonly kinds?: readonly string[] };
  readonly to: readonly string[];
};
