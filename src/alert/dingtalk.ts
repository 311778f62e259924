import { createHmac } from 'node:crypto';
import { type Adapter, type Delivery, JSON_HEADERS, judgeStatus } from './adapter.js';
import { linesOf } from './message.js';
import type { HttpAnswer } from './post.js';
import { cut } from './text.js';

const BODY_MAX_BYTES = 20_000;
const TITLE_MAX = 200;
/** DingTalk refuses a signature whose timestamp is more than an hour from its own clock; a margin, because Date is in seconds. */
const SKEW_MAX_MS = 55 * 60_000;
/** A robot that sent too much is silenced for ten minutes; asking again sooner does not help. */
const SILENCED_MS = 10 * 60_000;

/**
 * A DingTalk custom robot. Success is HTTP 200 and `errcode` 0; codes are judged by number, because their texts change language.
 *
 * @see https://open.dingtalk.com/document/robots/custom-robot-access
 */
export const dingtalk: Adapter = {
  request({ message, untold }, { url, secret, mentions, keyword }, nowMs) {
    const called = message.mention ? mentions.filter((mobile) => /^\+?[\d-]{5,20}$/.test(mobile)) : [];
    // The keyword comes first, and by itself, so that neither a cut nor the escaping can take it away.
    const title = [keyword, cut(harmless(message.title), TITLE_MAX)].filter(Boolean).join(' ');
    const head = [
      keyword && `${keyword}\n`,
      `### ${harmless(message.title)}`,
      called.map((mobile) => `@${mobile}`).join(' '),
    ];
    const lines = linesOf(message, untold).map(({ label, value }) => `- **${label}**: ${harmless(value)}`);
    const text = [...head.filter(Boolean), '', ...lines].join('\n');
    const body = fitting(text, (fit) =>
      JSON.stringify({
        msgtype: 'markdown',
        markdown: { title, text: fit },
        at: { atMobiles: called, isAtAll: false },
      }),
    );
    return { url: secret === undefined ? url : signed(url, secret, nowMs), headers: JSON_HEADERS, body };
  },
  judge(answer, nowMs) {
    const failed = judgeStatus(answer, nowMs);
    if (failed) return failed;
    const errcode = errcodeOf(answer.body);
    if (errcode === undefined) return { outcome: 'retry', reason: `answered ${answer.status} without an errcode` };
    return judgeCode(errcode, answer, nowMs);
  },
  // The vendor's limit is 20; another program may use the same robot.
  budget: { count: 18, perMs: 60_000 },
};

function judgeCode(errcode: number, answer: HttpAnswer, nowMs: number): Delivery {
  const reason = `errcode ${errcode}`;
  switch (errcode) {
    case 0:
      return { outcome: 'delivered' };
    case 130101:
    case 410100:
      return {
        outcome: 'retry',
        reason: `${reason}: too many messages for this robot`,
        afterMs: SILENCED_MS,
        holdAll: true,
      };
    case 310000: {
      const skewMs = answer.dateMs === undefined ? 0 : Math.abs(nowMs - answer.dateMs);
      const minutes = Math.round(skewMs / 60_000);
      if (skewMs > SKEW_MAX_MS)
        return { outcome: 'retry', reason: `${reason}: the clock of this machine is ${minutes} minutes off` };
      return {
        outcome: 'permanent',
        reason: `${reason}: refused by the robot's security settings (secret, keyword or address)`,
      };
    }
    case 300005:
    case 400101:
      return { outcome: 'permanent', reason: `${reason}: no such robot` };
    default:
      return { outcome: 'retry', reason };
  }
}

function errcodeOf(body: string): number | undefined {
  try {
    const { errcode } = JSON.parse(body) as { errcode?: unknown };
    return typeof errcode === 'number' ? errcode : undefined;
  } catch {
    return undefined;
  }
}

/** Signed anew for every attempt; encoded once: `+` becomes `%2B`, never `%252B`. */
function signed(url: string, secret: string, nowMs: number): string {
  const sign = createHmac('sha256', secret).update(`${nowMs}\n${secret}`).digest('base64');
  const [plain] = url.split('#');
  return `${plain}${url.includes('?') ? '&' : '?'}timestamp=${nowMs}&sign=${encodeURIComponent(sign)}`;
}

const WIDE: Readonly<Record<string, string>> = {
  '*': '＊',
  '[': '［',
  ']': '］',
  '<': '＜',
  '>': '＞',
  '#': '＃',
  '!': '！',
  '|': '｜',
  '~': '～',
  '`': '｀',
  '\\': '＼',
  '@': '＠',
};

/**
 * Text from outside, made harmless for DingTalk's markdown. Its clients do not honour backslashes, so what could make a link, an
 * image, a mention or a heading is shown in its full-width form instead.
 */
function harmless(text: string): string {
  return text.replace(/[*[\]<>#!|~`\\@]/g, (character) => WIDE[character] ?? character).replaceAll('://', '：//');
}

function fitting(text: string, build: (text: string) => string): string {
  const whole = build(text);
  const over = Buffer.byteLength(whole) - BODY_MAX_BYTES;
  if (over <= 0) return whole;
  const inJson = (codePoint: string) => Buffer.byteLength(JSON.stringify(codePoint)) - 2;
  const size = Buffer.byteLength(JSON.stringify(text)) - 2;
  return build(cut(text, size - over, inJson));
}
