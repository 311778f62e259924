import { type Adapter, JSON_HEADERS, judgeStatus } from './adapter.js';
import { linesOf, plainText } from './message.js';
import { cut } from './text.js';

const HEADER_MAX = 150;
const SECTION_MAX = 3_000;
const TEXT_MAX = 3_000;

/**
 * A Slack incoming webhook. Success is 200 with the text `ok`. Everything that may come from outside is `plain_text`, where no
 * asterisk or backtick means anything; the three characters that Slack reads everywhere are escaped, so that `<!channel>` in a
 * channel's name calls nobody.
 *
 * @see https://docs.slack.dev/messaging/formatting-message-text/#escaping
 */
export const slack: Adapter = {
  request({ message, untold }, { url, mentions }) {
    const lines = linesOf(message, untold).map(({ label, value }) => `${label}: ${value}`);
    const called = message.mention ? mentions.flatMap(mention) : [];
    const blocks = [
      { type: 'header', text: plain(message.title, HEADER_MAX) },
      { type: 'section', text: plain(lines.join('\n'), SECTION_MAX) },
      ...(called.length > 0
        ? [{ type: 'section', text: { type: 'mrkdwn', text: cut(called.join(' '), SECTION_MAX) } }]
        : []),
    ];
    const text = cutEscaped(plainText(message, untold), TEXT_MAX);
    return { url, headers: JSON_HEADERS, body: JSON.stringify({ text, mrkdwn: false, blocks }) };
  },
  judge(answer, nowMs) {
    const failed = judgeStatus(answer, nowMs);
    if (failed) return failed;
    if (answer.status === 200 && answer.body.trim() === 'ok') return { outcome: 'delivered' };
    return { outcome: 'retry', reason: `answered ${answer.status}, but not with the text ok` };
  },
  budget: { count: 1, perMs: 1_000 },
};

function plain(text: string, most: number) {
  return { type: 'plain_text', text: cutEscaped(text, most), emoji: false };
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };
const escapeOne = (codePoint: string) => ENTITIES[codePoint] ?? codePoint;

/** Cut so that the escaped text fits, never in the middle of an entity. */
function cutEscaped(text: string, most: number): string {
  const kept = cut(text, most, (codePoint) => escapeOne(codePoint).length);
  return kept.replace(/[&<>]/g, escapeOne);
}

/** Ids of users (`U…`, `W…`) and user groups (`S…`), and the three words for everybody. Anything else is left out. */
function mention(who: string): string[] {
  if (/^[UW][A-Z0-9]{2,30}$/.test(who)) return [`<@${who}>`];
  if (/^S[A-Z0-9]{2,30}$/.test(who)) return [`<!subteam^${who}>`];
  if (/^(here|channel|everyone)$/.test(who)) return [`<!${who}>`];
  return [];
}
