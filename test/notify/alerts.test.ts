import { Webhook } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { notifyJobId } from '../../src/queue/job-id.js';
import { deliverQueue } from '../../src/queue/queues.js';
import { blocked, floorBites, recovered } from '../alert/samples.js';
import { type HttpReceiver, startHttpReceiver } from '../support/http-receiver.js';
import { until } from '../support/wait.js';
import { type AlertsHarness, receiver, rulesWith, startAlerts } from './harness.js';

const types = (http: HttpReceiver) => http.requests.map(({ body }) => JSON.parse(body).type.replace('channel.', ''));
const ids = (http: HttpReceiver) => http.requests.map(({ headers }) => headers['webhook-id']);
const count = (harness: AlertsHarness, name: string) => harness.alerts.status().counts[name];
/** All that was handed to a receiver has come to its end, one way or the other. */
const settled = (harness: AlertsHarness, name: string, jobs: number) =>
  until(
    async () => {
      const each = count(harness, name);
      return each && each.delivered + each.dead + each.merged + each.duplicate + each.unprompted >= jobs;
    },
    { what: `${jobs} settled alerts of ${name}`, timeoutMs: 20_000 },
  );

describe('alerts', () => {
  it('go to every receiver of a matching route, once, signed, with facts and text', async () => {
    const http = await startHttpReceiver();
    const rules = rulesWith(
      receiver('ops', http.url, { secret: 'env:SECRET', locale: 'zh-CN', timeZone: 'Asia/Shanghai' }),
    );
    const { queues } = await startAlerts(rules, { env: { SECRET: 's3cret' } });
    await queues.addNotify(blocked());
    await queues.addNotify(blocked());
    const [request] = await http.waitForRequests(1);
    const body = new Webhook('s3cret', { format: 'raw' }).verify(
      request!.body,
      request!.headers as Record<string, string>,
    );
    expect(body).toMatchObject({
      v: 1,
      type: 'channel.blocked',
      channel: 'ALIPAY',
      id: notifyJobId(blocked(), 'ops'),
      untold: false,
    });
    expect(body).toMatchObject({ text: expect.stringContaining('ALIPAY 已熔断') });
  });

  it('know from the rules which blocks only a person ends', async () => {
    const http = await startHttpReceiver();
    const { queues } = await startAlerts(rulesWith(receiver('ops', http.url)));
    await queues.addNotify(blocked({ channel: 'by-hand-a' }));
    await queues.addNotify(blocked({ channel: 'ALIPAY' }));
    const texts = (await http.waitForRequests(2)).map(({ body }) => JSON.parse(body).text as string);
    expect(texts.find((each) => each.startsWith('by-hand-a'))).toContain('Next reminder: ');
    expect(texts.find((each) => each.startsWith('ALIPAY'))).toContain('Next try: ');
  });

  it('follow the routes: by group, by channel, by kind', async () => {
    const [pay, sms, ends] = [await startHttpReceiver(), await startHttpReceiver(), await startHttpReceiver()];
    const rules = rulesWith(receiver('pay', pay.url), receiver('sms', sms.url), receiver('ends', ends.url));
    rules.set(
      [...rules.receivers()],
      [
        { match: { group: 'pay' }, to: ['pay'] },
        { match: { channel: 'sms-*' }, to: ['sms', 'gone'] },
        { match: { kinds: ['observed'] }, to: ['ends'] },
      ],
    );
    const { queues } = await startAlerts(rules);
    await queues.addNotify(blocked({ channel: 'pay-a' }));
    await queues.addNotify(blocked({ channel: 'sms-a' }));
    await queues.addNotify(blocked({ channel: 'sms-b', kind: 'observed' }));
    await Promise.all([pay.waitForRequests(1), sms.waitForRequests(2), ends.waitForRequests(1)]);
    expect([types(pay), types(sms).sort(), types(ends)]).toEqual([['blocked'], ['blocked', 'observed'], ['observed']]);
  });

  it('of a group go to its routes and to those of the channels shown, once, and take no place in the news of a channel', async () => {
    const [pay, one, others] = [await startHttpReceiver(), await startHttpReceiver(), await startHttpReceiver()];
    const rules = rulesWith(receiver('pay', pay.url), receiver('one', one.url), receiver('others', others.url));
    rules.set(
      [...rules.receivers()],
      [
        { match: { group: 'pay' }, to: ['pay'] },
        { match: { channel: 'ALI*' }, to: ['one'] },
        { match: { group: 'sms' }, to: ['others'] },
        { match: { channel: 'WECHAT' }, to: ['others'] },
        { match: { kinds: ['blocked'] }, to: ['others'] },
      ],
    );
    const harness = await startAlerts(rules);
    const late = floorBites();
    await harness.queues.addNotify({ ...late, epoch: late.epoch + 60_000 });
    await harness.queues.addNotify({ ...late, epoch: late.epoch + 60_000 });
    await Promise.all([pay.waitForRequests(1), one.waitForRequests(1)]);
    expect(JSON.parse(pay.requests[0]!.body)).toMatchObject({ type: 'group.floor', group: { name: 'pay' } });
    // News of the channel itself that is older than that of its group.
    await harness.queues.addNotify(blocked());
    await one.waitForRequests(2);
    await harness.queues.addNotify(recovered());
    await one.waitForRequests(3);
    await settled(harness, 'others', 1);
    expect(types(one)).toEqual(['group.floor', 'blocked', 'recovered']);
    expect([types(pay), types(others)]).toEqual([['group.floor'], ['blocked']]);
  });

  it('6.14 of an endpoint that is away are delivered afterwards, with the original time and the same id', async () => {
    const http = await startHttpReceiver();
    http.answerNext({ status: 500 }, 'cut', { status: 503 });
    const harness = await startAlerts(rulesWith(receiver('ops', http.url)));
    await harness.queues.addNotify(blocked());
    await http.waitForRequests(4);
    await settled(harness, 'ops', 1);
    expect(new Set(ids(http)).size).toBe(1);
    expect(JSON.parse(http.requests[3]!.body).at).toBe('2026-03-01T10:30:00.000Z');
    expect(count(harness, 'ops')).toMatchObject({ delivered: 1, retried: 3, dead: 0 });
  });

  it('say one true thing in the end when "blocked" is retried while "recovered" comes', async () => {
    const http = await startHttpReceiver();
    http.answerAlways({ status: 500 });
    const harness = await startAlerts(rulesWith(receiver('ops', http.url)));
    await harness.queues.addNotify(blocked());
    await http.waitForRequests(1);
    await harness.queues.addNotify(recovered());
    await until(() => types(http).includes('recovered'), { what: 'the recovery to be tried' });
    http.answerAlways({ status: 200 });
    await settled(harness, 'ops', 2);
    const last = JSON.parse(http.requests.at(-1)!.body);
    expect(last).toMatchObject({ type: 'channel.recovered', untold: true });
    expect(count(harness, 'ops')).toMatchObject({ delivered: 1, merged: 1 });
    expect(types(http).lastIndexOf('blocked')).toBeLessThan(types(http).indexOf('recovered'));
  });

  it('tell blocked, recovered, blocked again in this order, each once', async () => {
    const http = await startHttpReceiver();
    const { queues } = await startAlerts(rulesWith(receiver('ops', http.url)));
    const again = recovered().epoch + 1_000;
    const story = [
      blocked(),
      recovered(),
      blocked({ kind: 'relapsed', epoch: again, at: again, block: again, trips: 2 }),
    ];
    for (const [i, each] of story.entries()) {
      await queues.addNotify(each);
      await http.waitForRequests(i + 1);
    }
    expect(types(http)).toEqual(['blocked', 'recovered', 'relapsed']);
  });

  it('8.06 tell no end to a receiver whose "blocked" was given up', async () => {
    const http = await startHttpReceiver();
    http.answerNext({ status: 410 });
    const harness = await startAlerts(rulesWith(receiver('ops', http.url)));
    await harness.queues.addNotify(blocked());
    await settled(harness, 'ops', 1);
    await harness.queues.addNotify(recovered());
    await settled(harness, 'ops', 2);
    expect(types(http)).toEqual(['blocked']);
    expect(count(harness, 'ops')).toMatchObject({ dead: 1, unprompted: 1 });
  });

  it('8.06 tell no end to a receiver that was not told of the block, by its route', async () => {
    const http = await startHttpReceiver();
    const rules = rulesWith(receiver('ops', http.url));
    rules.set([...rules.receivers()], [{ match: { kinds: ['recovered'] }, to: ['ops'] }]);
    const harness = await startAlerts(rules);
    await harness.queues.addNotify(blocked());
    await harness.queues.addNotify(recovered());
    await settled(harness, 'ops', 1);
    expect(http.requests).toEqual([]);
    expect(count(harness, 'ops')).toMatchObject({ unprompted: 1 });
  });

  it('that cannot be delivered become dead letters: at once, or after the last attempt, with a log line and no URL', async () => {
    const [gone, down, fine] = [await startHttpReceiver(), await startHttpReceiver(), await startHttpReceiver()];
    gone.answerAlways({ status: 404 });
    down.answerAlways({ status: 500 });
    const rules = rulesWith(
      receiver('gone', `${gone.url}/hidden?token=hidden`),
      receiver('down', `${down.url}/hidden`),
      receiver('fine', fine.url),
    );
    const harness = await startAlerts(rules, { retry: { attempts: 3, firstMs: 20, mostMs: 40 } });
    await harness.queues.addNotify(blocked());
    await Promise.all(['gone', 'down', 'fine'].map((name) => settled(harness, name, 1)));
    expect([gone.requests.length, down.requests.length, fine.requests.length]).toEqual([1, 3, 1]);
    const failed = async (name: string) => (await harness.queues.queue(deliverQueue(name)).counts()).failed;
    await until(async () => (await failed('gone')) === 1 && (await failed('down')) === 1, { what: 'the kept jobs' });
    const errors = harness.logged
      .filter(({ level }) => level === 'error')
      .map(({ fields }) => [fields.receiver, fields.channel, fields.reason]);
    expect(errors.sort()).toEqual([
      ['down', 'ALIPAY', 'answered 500'],
      ['gone', 'ALIPAY', 'answered 404'],
    ]);
    expect(JSON.stringify(harness.logged)).not.toContain('hidden');
  });

  it('6.04 an error body with status 200 is retried or given up, as the vendor means it', async () => {
    const http = await startHttpReceiver();
    http.answerNext(
      { body: '{"errcode":-1}' },
      { body: '<html>' },
      { body: '{"errcode":0}' },
      { body: '{"errcode":310000}' },
    );
    const harness = await startAlerts(rulesWith(receiver('ding', http.url, { type: 'dingtalk' })));
    await harness.queues.addNotify(blocked());
    await settled(harness, 'ding', 1);
    await harness.queues.addNotify(blocked({ channel: 'B' }));
    await settled(harness, 'ding', 2);
    expect(http.requests).toHaveLength(4);
    expect(count(harness, 'ding')).toMatchObject({ delivered: 1, retried: 2, dead: 1 });
  });

  it('6.03 each DingTalk attempt is signed with a fresh timestamp', async () => {
    const http = await startHttpReceiver();
    http.answerNext({ status: 500 }, { body: '{"errcode":0}' });
    const harness = await startAlerts(
      rulesWith(receiver('ding', `${http.url}/send?access_token=x`, { type: 'dingtalk', secret: 'SECabc' })),
    );
    await harness.queues.addNotify(blocked());
    await settled(harness, 'ding', 1);
    const [first, second] = http.requests.map(({ path }) =>
      Number(new URLSearchParams(path.split('?')[1]).get('timestamp')),
    );
    expect(second).toBeGreaterThan(first!);
  });

  it('6.07 a burst on a robot stays within its budget, and the rest waits without losing an attempt', async () => {
    const http = await startHttpReceiver();
    http.answerAlways({ body: '{"errcode":0}' });
    const harness = await startAlerts(rulesWith(receiver('ding', http.url, { type: 'dingtalk' })));
    await Promise.all([...Array(60).keys()].map((i) => harness.queues.addNotify(blocked({ channel: `c${i}` }))));
    const queue = harness.queues.queue(deliverQueue('ding'));
    await until(async () => (await queue.counts()).delayed === 42, { what: '42 messages to wait', timeoutMs: 20_000 });
    expect(http.requests).toHaveLength(18);
    expect(count(harness, 'ding')).toMatchObject({ delivered: 18, retried: 0 });
  });

  it('6.11 Retry-After is kept to by every message for the receiver, and garbage leaves the usual back-off', async () => {
    const http = await startHttpReceiver();
    http.answerNext({ status: 429, headers: { 'retry-after': '1' } });
    const harness = await startAlerts(rulesWith(receiver('ops', http.url)));
    await harness.queues.addNotify(blocked());
    await http.waitForRequests(1);
    await until(() => count(harness, 'ops')?.retried === 1, { what: 'the refusal to be noted' });
    await harness.queues.addNotify(recovered());
    await harness.queues.addNotify(blocked({ channel: 'B' }));
    await settled(harness, 'ops', 3);
    const [first, ...later] = http.requests.map(({ atMs }) => atMs);
    for (const at of later) expect(at - first!).toBeGreaterThanOrEqual(990);
    http.answerNext({ status: 429, headers: { 'retry-after': 'soon' } });
    await harness.queues.addNotify(blocked({ channel: 'C' }));
    await settled(harness, 'ops', 4);
  });

  it('6.13 two processes send one message once the endpoint is back', async () => {
    const http = await startHttpReceiver();
    http.answerAlways({ status: 500 });
    const rules = rulesWith(receiver('ops', http.url));
    const first = await startAlerts(rules);
    const second = await startAlerts(rules, { beside: first });
    await first.queues.addNotify(blocked());
    await http.waitForRequests(4);
    let accepted = 0;
    http.answerAlways(() => {
      accepted++;
      return { status: 200 };
    });
    await until(() => (count(first, 'ops')?.delivered ?? 0) + (count(second, 'ops')?.delivered ?? 0) === 1, {
      what: 'the delivery',
    });
    expect(accepted).toBe(1);
    expect(new Set(ids(http)).size).toBe(1);
  });

  it('for one receiver that hangs do not hold up those for another', async () => {
    const [slow, fine] = [await startHttpReceiver(), await startHttpReceiver()];
    slow.answerAlways('hang');
    const harness = await startAlerts(
      rulesWith(receiver('slow', slow.url, { timeoutMs: 20_000 }), receiver('fine', fine.url)),
      { closeWithinMs: 300 },
    );
    for (let i = 0; i < 10; i++) await harness.queues.addNotify(blocked({ channel: `c${i}` }));
    await fine.waitForRequests(10, { timeoutMs: 5_000 });
  });

  it('wait for a receiver that is taken out of the rules, and go on when it is back, with its new URL', async () => {
    const [before, after] = [await startHttpReceiver(), await startHttpReceiver()];
    const rules = rulesWith(receiver('ops', before.url));
    const harness = await startAlerts(rules);
    await harness.queues.addNotify(blocked());
    await before.waitForRequests(1);
    await settled(harness, 'ops', 1);
    before.answerAlways({ status: 500 });
    await harness.queues.addNotify(blocked({ channel: 'B' }));
    await before.waitForRequests(2);
    rules.set([]);
    rules.set([receiver('ops', after.url)]);
    const [request] = await after.waitForRequests(1);
    expect(JSON.parse(request!.body).channel).toBe('B');
  });

  it('wait for a variable that is not set, and name it', async () => {
    const http = await startHttpReceiver();
    const env: Record<string, string> = {};
    const harness = await startAlerts(rulesWith(receiver('ops', 'env:HOOK')), { env });
    await harness.queues.addNotify(blocked());
    await until(() => harness.logged.some(({ fields }) => String(fields.reason).includes('HOOK is not set')), {
      what: 'the line',
    });
    env.HOOK = http.url;
    await http.waitForRequests(1);
  });

  it('6.16 go to no private address unless that is allowed', async () => {
    const http = await startHttpReceiver();
    const harness = await startAlerts(rulesWith(receiver('ops', http.url)), { allowPrivate: false });
    await harness.queues.addNotify(blocked());
    await settled(harness, 'ops', 1);
    expect(http.requests).toEqual([]);
    expect(count(harness, 'ops')).toMatchObject({ dead: 1 });
  });

  it('5.09 in flight at the end are finished, and their follow-up jobs are there', async () => {
    const http = await startHttpReceiver();
    http.answerAlways({ status: 200, afterMs: 300 });
    const harness = await startAlerts(rulesWith(receiver('ops', http.url)));
    await harness.queues.addNotify(blocked());
    await http.waitForRequests(1);
    await harness.stop();
    expect(count(harness, 'ops')).toMatchObject({ delivered: 1 });
    const next = await startAlerts(harness.rules, { beside: harness });
    await next.queues.addNotify(recovered());
    await http.waitForRequests(2);
    expect(types(http)).toEqual(['blocked', 'recovered']);
  });

  it('carry neither URL nor secret in their jobs', async () => {
    const http = await startHttpReceiver();
    http.answerAlways({ status: 500 });
    const harness = await startAlerts(
      rulesWith(receiver('ops', `${http.url}/hidden-path`, { secret: 'hidden-secret' })),
    );
    await harness.queues.addNotify(blocked());
    await http.waitForRequests(2);
    const { producer, keys } = harness;
    const job = await producer.hgetall(`${keys.queues}:${deliverQueue('ops')}:${notifyJobId(blocked(), 'ops')}`);
    expect(JSON.parse(job.data!)).toMatchObject({ receiver: 'ops', message: { title: 'ALIPAY is blocked' } });
    expect(JSON.stringify(job)).not.toMatch(/hidden|127\.0\.0\.1/);
  });
});
