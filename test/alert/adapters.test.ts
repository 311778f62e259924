import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { Webhook } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import type { Target } from '../../src/alert/adapter.js';
import { dingtalk } from '../../src/alert/dingtalk.js';
import type { HttpAnswer } from '../../src/alert/post.js';
import { isTold } from '../../src/alert/render.js';
import { parseRetryAfter } from '../../src/alert/retry-after.js';
import { slack } from '../../src/alert/slack.js';
import { webhook } from '../../src/alert/webhook.js';
import { TransitionKind } from '../../src/domain/transition.js';
import { alertOf, blocked, degraded, floorBites, HOSTILE, recovered } from './samples.js';

const NOW = 1_760_000_000_000;
const target = (changes: Partial<Target> = {}): Target => ({
  url: 'https://example.com/robot?access_token=t',
  mentions: [],
  ...changes,
});
const answer = (status: number, body = '', more: Partial<HttpAnswer> = {}): HttpAnswer => ({ status, body, ...more });

describe('webhook', () => {
  const schema = JSON.parse(readFileSync(new URL('../../docs/webhook.schema.json', import.meta.url), 'utf8'));
  const validate = new Ajv2020({ strict: true, allowUnionTypes: true }).compile(schema);

  it('sends a body that its published schema describes, for every kind and hostile name', () => {
    for (const kind of TransitionKind.options.filter((each) => isTold(each) && each !== 'floor')) {
      for (const channel of HOSTILE) {
        const body = JSON.parse(webhook.request(alertOf(blocked({ kind, channel })), target(), NOW).body);
        expect(validate(body), JSON.stringify(validate.errors)).toBe(true);
        expect(body).toMatchObject({ v: 1, type: `channel.${kind}`, channel });
      }
    }
    for (const name of HOSTILE) {
      const shown = [...floorBites().group!.shown, { channel: name, until: -1 }];
      const body = JSON.parse(webhook.request(alertOf(floorBites({ name, shown })), target(), NOW).body);
      expect(validate(body), JSON.stringify(validate.errors)).toBe(true);
      // Who knows channels alone meets one that cannot exist, and that is in use.
      expect(body).toMatchObject({ type: 'group.floor', channel: `{group} ${name}`, from: 'closed', to: 'closed' });
      expect(body.group).toMatchObject({ name, floor: 1, visible: 0, shown: [{ endless: false }, { until: null }] });
    }
    expect(validate({ ...JSON.parse(webhook.request(alertOf(recovered()), target(), NOW).body), type: 'x' })).toBe(
      false,
    );
  });

  it('6.14 carries the time of the event, however late it is sent', () => {
    const body = JSON.parse(webhook.request(alertOf(blocked()), target(), Date.UTC(2027, 1, 1)).body);
    expect(body.at).toBe('2026-03-01T10:30:00.000Z');
    expect(body.window).toEqual({ size: 10, recorded: 7, succeeded: 3, failed: 4, assumed: 3, thresholdPercent: 70 });
  });

  it('tells of a level which it is and was, and of a block until when its key lives where that is longer', () => {
    const body = JSON.parse(webhook.request(alertOf(degraded()), target(), NOW).body);
    expect(validate(body), JSON.stringify(validate.errors)).toBe(true);
    expect(body).toMatchObject({ type: 'channel.level', level: 'cached', before: '', incident: '', block: null });
    expect(body.window).toMatchObject({ failed: 9, thresholdPercent: 60 });
    const { until } = blocked();
    const tried = JSON.parse(webhook.request(alertOf(blocked({ keyUntil: until + 60_000 })), target(), NOW).body);
    expect(validate(tried), JSON.stringify(validate.errors)).toBe(true);
    expect(tried).toMatchObject({ until: '2026-03-01T11:00:00.000Z', keyUntil: '2026-03-01T11:01:00.000Z' });
    expect(tried).not.toHaveProperty('level');
  });

  it('tells how many calls were slow, and what the third party asked for', () => {
    const slow = { reason: 'slow-calls', slow: 2, threshold: undefined, evidence: [{ at: NOW, retryAfterMs: 1_500 }] };
    const body = JSON.parse(webhook.request(alertOf(blocked(slow)), target(), NOW).body);
    expect(validate(body), JSON.stringify(validate.errors)).toBe(true);
    expect(body).toMatchObject({ window: { slow: 2, thresholdPercent: null }, evidence: [{ retryAfterMs: 1_500 }] });
  });

  it('signs as Standard Webhooks say, anew for each attempt and with the same id', () => {
    const secret = `whsec_${Buffer.from('a secret of some length').toString('base64')}`;
    const now = Date.now();
    const [first, second] = [now, now + 2_000].map((at) => webhook.request(alertOf(blocked()), target({ secret }), at));
    expect(new Webhook(secret).verify(first!.body, { ...first!.headers })).toMatchObject({ channel: 'ALIPAY' });
    expect(second!.headers['webhook-id']).toBe(first!.headers['webhook-id']);
    expect(second!.headers['webhook-timestamp']).not.toBe(first!.headers['webhook-timestamp']);
    expect(second!.headers['webhook-signature']).not.toBe(first!.headers['webhook-signature']);
    const plain = webhook.request(alertOf(blocked()), target({ secret: 'not base64!' }), now);
    expect(new Webhook('not base64!', { format: 'raw' }).verify(plain.body, { ...plain.headers })).toBeTruthy();
    expect(() => webhook.request(alertOf(blocked()), target({ secret: 'whsec_!!!' }), now)).toThrow(
      /base64 after whsec_$/,
    );
  });

  it('takes any 2xx for a success, and tells what may pass from what will not', () => {
    const outcome = (status: number) => webhook.judge(answer(status), NOW).outcome;
    expect([200, 201, 202, 204, 299].map(outcome)).toEqual(Array(5).fill('delivered'));
    expect([408, 425, 429, 500, 502, 503].map(outcome)).toEqual(Array(6).fill('retry'));
    expect([301, 302, 307, 400, 401, 403, 404, 410].map(outcome)).toEqual(Array(8).fill('permanent'));
  });
});

describe('slack', () => {
  const body = (...args: Parameters<typeof alertOf>) => JSON.parse(slack.request(alertOf(...args), target(), NOW).body);

  it('6.04 takes nothing but 200 with the text ok for a success', () => {
    expect(slack.judge(answer(200, 'ok'), NOW)).toEqual({ outcome: 'delivered' });
    for (const text of ['{"ok":false}', '', '<html>', 'no_service', '{"errcode":310000}']) {
      expect(slack.judge(answer(200, text), NOW).outcome, text).toBe('retry');
    }
    expect([400, 403, 404, 410].map((status) => slack.judge(answer(status), NOW).outcome)).toEqual(
      Array(4).fill('permanent'),
    );
  });

  it('6.08 stays within the limits of header and sections, cut at code points', () => {
    const long = alertOf(
      blocked({ channel: '🔥'.repeat(100), note: '<&>'.repeat(5_000), evidence: [{ at: 1, code: '<'.repeat(5_000) }] }),
    );
    long.message.lines.push({ label: 'x', value: '&'.repeat(5_000) });
    const { text, blocks } = JSON.parse(slack.request(long, target(), NOW).body);
    expect(blocks[0].text.text.length).toBeLessThanOrEqual(150);
    expect(blocks[0].text.text.isWellFormed()).toBe(true);
    expect(blocks[1].text.text.length).toBeLessThanOrEqual(3_000);
    expect(blocks[1].text.text).toMatch(/&amp;…$/);
    expect(text.length).toBeLessThanOrEqual(3_000);
  });

  it('shows hostile names as they are, and lets them call nobody', () => {
    for (const channel of HOSTILE) {
      const { text, mrkdwn, blocks } = body(blocked({ channel }));
      expect(mrkdwn).toBe(false);
      expect(blocks.map((block: { text: { type: string } }) => block.text.type)).toEqual(['plain_text', 'plain_text']);
      expect(`${text}${JSON.stringify(blocks)}`).not.toMatch(/[<>]/);
    }
  });

  it('calls the configured people on a block alone, and no one by a text that is not an id', () => {
    const mentions = ['U012AB3CD', 'here', 'S0123ABCD', '<!channel>', 'everyone else'];
    const called = (alert: ReturnType<typeof alertOf>) =>
      JSON.parse(slack.request(alert, target({ mentions }), NOW).body).blocks[2]?.text.text;
    expect(called(alertOf(blocked()))).toBe('<@U012AB3CD> <!here> <!subteam^S0123ABCD>');
    expect(called(alertOf(recovered()))).toBeUndefined();
  });
});

describe('dingtalk', () => {
  const request = (alert = alertOf(blocked()), changes: Partial<Target> = {}, now = NOW) =>
    dingtalk.request(alert, target(changes), now);

  it('6.01 signs once, so that a + in the signature is sent as %2B', () => {
    expect(request(undefined, { secret: 'SECabc' }).url).toBe(
      'https://example.com/robot?access_token=t&timestamp=1760000000000&sign=C3FkurFPc5LIZL0omdt9hF41dWMdMZ4sXr6q8R3r58I%3D',
    );
    const withPlus = [...Array(200).keys()]
      .map((i) => request(undefined, { secret: 'SECabc' }, NOW + i).url)
      .find((url) => url.includes('%2B'))!;
    const sign = new URL(withPlus).searchParams.get('sign')!;
    expect(sign).toMatch(/^[A-Za-z0-9+/]{43}=$/);
    expect(sign).toContain('+');
    expect(withPlus).not.toContain('%25');
  });

  it('6.03 takes a fresh timestamp for each attempt, and names the clock when it is off', () => {
    const later = request(undefined, { secret: 'SECabc' }, NOW + 7_200_000);
    expect(later.url).toContain('timestamp=1760007200000');
    const refused = answer(200, '{"errcode":310000}', { dateMs: NOW - 7_200_000 });
    expect(dingtalk.judge(refused, NOW)).toEqual({
      outcome: 'retry',
      reason: 'errcode 310000: the clock of this machine is 120 minutes off',
    });
    expect(dingtalk.judge({ ...refused, dateMs: NOW }, NOW).outcome).toBe('permanent');
  });

  it('6.04 judges by errcode, never by the HTTP status alone', () => {
    const outcome = (body: string, status = 200) => dingtalk.judge(answer(status, body), NOW).outcome;
    expect(outcome('{"errcode":0,"errmsg":"ok"}')).toBe('delivered');
    for (const code of [310000, 300005, 400101]) expect(outcome(`{"errcode":${code}}`)).toBe('permanent');
    for (const code of [-1, 500100, 77]) expect(outcome(`{"errcode":${code}}`)).toBe('retry');
    for (const body of [
      '{"code":19001}',
      '{"StatusCode":1}',
      '{"ok":false}',
      'ok',
      '',
      '<html>',
      'null',
      '{"errcode":"0"}',
    ]) {
      expect(outcome(body), body).toBe('retry');
    }
    expect(outcome('{"errcode":0}', 500)).toBe('retry');
    for (const code of [130101, 410100]) {
      expect(dingtalk.judge(answer(200, `{"errcode":${code}}`), NOW)).toMatchObject({
        outcome: 'retry',
        afterMs: 600_000,
        holdAll: true,
      });
    }
  });

  it('6.06 puts the keyword into title and text, also of a recovery and of a text that is cut', () => {
    const huge = alertOf(recovered());
    huge.message.lines.push({ label: 'x', value: '微'.repeat(20_000) });
    for (const alert of [alertOf(blocked()), alertOf(recovered()), huge]) {
      const { markdown } = JSON.parse(request(alert, { keyword: '告警' }).body);
      expect(markdown.title).toContain('告警');
      expect(markdown.text).toContain('告警');
    }
  });

  it('stays within 20,000 bytes, cut at code points', () => {
    const huge = alertOf(blocked());
    huge.message.lines.push({ label: 'x', value: '"微🔥\\'.repeat(20_000) });
    const { body } = request(huge);
    expect(Buffer.byteLength(body)).toBeLessThanOrEqual(20_000);
    expect(Buffer.byteLength(body)).toBeGreaterThan(19_900);
    expect(JSON.parse(body).markdown.text.isWellFormed()).toBe(true);
  });

  it('calls the configured mobiles on a block, and lets a hostile name call or link nothing', () => {
    const mentions = ['13800000000', '@all'];
    const { at, markdown } = JSON.parse(request(alertOf(blocked()), { mentions }).body);
    expect(at).toEqual({ atMobiles: ['13800000000'], isAtAll: false });
    expect(markdown.text).toContain('@13800000000');
    for (const channel of HOSTILE) {
      const { at, markdown } = JSON.parse(request(alertOf(recovered({ channel })), { mentions }).body);
      expect(at.atMobiles).toEqual([]);
      expect(markdown.text.replace(/^### |\*\*/gm, '')).not.toMatch(/[[\]<>`~#@]|:\/\//);
    }
  });
});

describe('Retry-After', () => {
  it('6.11 is read as seconds or as a date, clamped to 1 s … 1 h, and garbage leaves the usual back-off', () => {
    const now = Date.parse('Wed, 21 Oct 2026 07:28:00 GMT');
    const read = (text: string) => parseRetryAfter(text, now);
    expect([read('2'), read('0'), read('99999'), read(' 30 ')]).toEqual([2_000, 1_000, 3_600_000, 30_000]);
    expect(read('Wed, 21 Oct 2026 07:28:30 GMT')).toBe(30_000);
    expect(read('Wed, 21 Oct 2020 07:28:30 GMT')).toBe(1_000);
    for (const garbage of ['', 'soon', '-1', 'NaN', '1e9', 'Infinity', 'xyz 99 GMT', '２'])
      expect(read(garbage), garbage).toBeUndefined();
    expect(parseRetryAfter(undefined, now)).toBeUndefined();
  });

  it('6.11 holds back every message for the receiver that sent it', () => {
    expect(webhook.judge(answer(429, '', { retryAfter: '2' }), NOW)).toMatchObject({
      outcome: 'retry',
      afterMs: 2_000,
      holdAll: true,
    });
    expect(webhook.judge(answer(429, '', { retryAfter: 'x' }), NOW)).toEqual({
      outcome: 'retry',
      reason: 'answered 429',
    });
  });
});
