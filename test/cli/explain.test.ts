import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ChannelModel } from '../../src/domain/channel-model.js';
import { parseRules } from '../../src/rules/parse.js';
import { sharedRedisUrl, uniquePrefix } from '../support/redis.js';
import { releaseAtEnd } from '../support/releasers.js';
import { fuseline, fuselineHere } from './run.js';

const RULES = `
mode: on
defaults: { window: 12, hold: 10m, ignore: [USER_CANCELLED] }
policies:
  strict: { window: 5, successRate: 80 }
  login: { window: 3 }
channels:
  ALIPAY: { policy: payments, hold: 5m, codes: { success: [ORDERPAID], ignored: [X1] } }
  STRICT: { policy: strict, maxConsecutiveFailures: 1, slowCall: 3s }
  BUSY: { policy: core, maxFailures: 20, minSources: 2, minFailures: 3 }
  'gpt-*': { policy: llm }
  LOGIN: { policy: login, mode: observe }
  LEVELS: { levels: { degraded: 90, blocked: 50 } }
`;

async function rulesFile(text = RULES): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'fuseline-explain-'));
  releaseAtEnd(() => rm(dir, { recursive: true, force: true }));
  await writeFile(join(dir, 'rules.yaml'), text);
  return join(dir, 'rules.yaml');
}

const settings = () => ({ FUSELINE_REDIS_URL: sharedRedisUrl(), FUSELINE_PREFIX: uniquePrefix() });

async function explain(channel: string, ...flags: string[]) {
  const file = await rulesFile();
  const ran = await fuselineHere(['rules', 'explain', channel, '--file', file, '--json', ...flags]);
  expect(ran).toMatchObject({ code: 0, err: '' });
  return JSON.parse(ran.out);
}

it('explains the rules in force in Redis: each value, where it comes from, what blocks, and what one outcome counts as', async () => {
  const env = settings();
  expect((await fuselineHere(['rules', 'set', await rulesFile()], env)).code).toBe(0);
  const { code, out, err } = await fuseline(['rules', 'explain', 'ALIPAY', '--code', 'CARD_DECLINED'], env);
  expect({ code, err }).toEqual({ code: 0, err: '' });
  const lines = out.split('\n');
  expect(lines[0]).toBe('ALIPAY: rules version 1, channels.ALIPAY, with the preset payments');
  for (const line of [
    /^mode +on +document$/,
    /^window +kind: sequential, healthy: 90, failing: 50, falseBlocks: 1 per million +preset payments$/,
    /^successRate +70 +default$/,
    /^hold +5m +channel ALIPAY$/,
    /^ignore +USER_CANCELLED, CARD_\*, .*, X1 +preset payments, channel ALIPAY$/,
    /^codes +success: \[ORDERPAID\], failure: \[\] +channel ALIPAY$/,
    /^- a failure adds 11 to a score, a success takes 4 away, never below 0: blocked from 83 on/,
    /^- 8 failures in a row block$/,
    /^- falsely, once in [\d,]+ calls where exactly 90 % succeed \(wanted: 1 per million at most\)/,
    /^- ignored: CLIENT_CANCELLED in any case of letters/,
    /^- a timeout \(TIMEOUT\): failure$/,
    /^- as shipped, at 10 a second: 0 \/ 1 \/ 699 blocks per million/,
    /^- ignored: the rules say so of the code CARD_DECLINED$/,
  ])
    expect(
      lines.filter((each) => line.test(each)),
      String(line),
    ).toHaveLength(1);
});

it('names the layer of each value: default, document, defaults, preset, policy, channel and pattern', async () => {
  expect((await explain('STRICT')).from).toMatchObject({
    ...{ window: 'policy strict', successRate: 'policy strict', hold: 'defaults', block: 'default', mode: 'document' },
    ...{ ignore: 'defaults', maxConsecutiveFailures: 'channel STRICT', slowCall: 'channel STRICT', slowAs: 'default' },
  });
  expect(await explain('gpt-5')).toMatchObject({
    ...{ entry: 'gpt-*', policy: 'llm', from: { window: 'preset llm', hold: 'defaults' } },
    preset: { callsPerSecond: 1, falseBlocks: [0, 0, 43] },
  });
  expect(await explain('OTHER')).toMatchObject({ entry: null, policy: null, from: { window: 'defaults' } });
  expect(await explain('LOGIN')).toMatchObject({
    ...{ policy: 'login', preset: null, from: { mode: 'channel LOGIN', window: 'policy login' } },
  });
  expect((await explain('LEVELS')).from).toMatchObject({ successRate: 'channel LEVELS', levels: 'channel LEVELS' });
});

it('says when the policy of the document has the name of a preset', async () => {
  const { out } = await fuselineHere(['rules', 'explain', 'LOGIN', '--file', await rulesFile()]);
  expect(out).toContain('the document has a policy login of its own, which takes the place of the preset of that name');
  expect(out).toContain('mode observe: what follows is judged and told');
});

it('tells in words at which failure a channel is blocked, and there it is', async () => {
  const strict = await explain('STRICT');
  expect(strict.blocks).toEqual([
    'the 2nd failed or slow call among the last 5 calls blocks: fewer than 80 % have succeeded then; calls not yet seen count as successes',
    'more than 1 failed or slow calls in a row block, whatever the rate: the 2nd',
    'a block lasts 30m; then it is watched for 10m, and a block within that is a relapse',
  ]);
  const busy = await explain('BUSY');
  expect(busy.blocks.slice(0, 4)).toEqual([
    'a failure blocks that leaves fewer than 60 % successes among all calls of the last 10s, from 20 calls on, and from 3 failures on: of 20 calls the 9th',
    'more than 9 failures in a row block, whatever the rate: the 10th',
    'more than 20 failures within the window block, whatever the rate: the 21st',
    'all this only if the last failures (20 at most) come from 2 sources or more; outcomes without a source are one source. From fewer, people are told once in 30m 30s, and nothing is hidden',
  ]);
  expect((await explain('gpt-5')).blocks).toContain(
    'more than 50 % slow calls (longer than 1m) block, from 10 calls on: of 10 calls the 6th',
  );
});

it.each([
  ['window: 10, successRate: 70', 10],
  ['window: 10, successRate: 69.99', 10],
  ['window: 7, successRate: 100', 7],
  ['window: 3, successRate: 0.01', 3],
  ['window: 1000, successRate: 99.9', 1_000],
  ['window: 20, successRate: 50, minFailures: 14', 20],
])('counts %s as the model does', async (rule, size) => {
  const text = `mode: on\ndefaults: { ${rule} }\n`;
  const { out } = await fuselineHere(['rules', 'explain', 'C', '--json', '--file', await rulesFile(text)]);
  const said = Number(/^the (\d+)\w\w failure among/.exec(JSON.parse(out).blocks[0])![1]);
  const parsed = parseRules(text);
  if (!parsed.ok) throw new Error('refused');
  const model = new ChannelModel('C');
  let failures = 0;
  for (let blocked = false; !blocked && failures < size; ) {
    failures += 1;
    const batch = { partition: 'p', results: '0', times: [], evidence: ['{"at":0}'] };
    const entries = [[String(failures), failures, 1]] as const;
    blocked = model.record(parsed.rules.policyFor('C'), { ...batch, entries }, failures).blocked;
  }
  expect(said).toBe(failures);
});

it.each<[flags: string[], counts: string, why: RegExp]>([
  [['--code', 'NEW'], 'failure', /do not name the code NEW, so what the caller said holds: success false/],
  [['--code', 'NEW', '--success', 'true'], 'success', /success true/],
  [['--code', 'client_cancelled'], 'ignored', /the rules say so/],
  [['--duration', '4s'], 'slow', /took 4s, longer than 3s, and counts as a failure/],
  [['--duration', '3s'], 'success', /there is no code/],
  [['--duration', '4s', '--success', 'false'], 'failure', /success false/],
  [['--retry-after', '20s'], 'failure', /success false/],
])('says what an outcome with %j counts as, and why', async (flags, counts, why) => {
  expect((await explain('STRICT', ...flags)).outcome).toEqual({ counts, why: expect.stringMatching(why) });
});

it('says for how long a third party that asks for a pause gets it', async () => {
  const wait = async (time: string) => (await explain('gpt-5', '--retry-after', time)).outcome;
  expect(await wait('20s')).toEqual({ counts: 'rate-limited', why: expect.stringContaining('hidden for 20s') });
  expect(await wait('20m')).toEqual({ counts: 'rate-limited', why: expect.stringContaining('hidden for 5m') });
});

it('refuses what is no outcome, no channel or no rules, and shows the defaults where there are none', async () => {
  const file = await rulesFile();
  const here = (...args: string[]) => fuselineHere(['rules', 'explain', ...args, '--file', file]);
  expect(await here('A', '--success', 'yes')).toMatchObject({ code: 2, err: expect.stringContaining('got "yes"') });
  expect(await here('A', '--duration', '2h')).toMatchObject({ code: 2, err: expect.stringContaining('3600000') });
  expect(await here('A', '--duration', '4')).toMatchObject({ code: 2, err: expect.stringContaining('--duration') });
  expect(await here('A{B}')).toMatchObject({ code: 2, out: '' });
  const bad = await rulesFile('channels: { A: { policy: nope } }');
  expect(await fuselineHere(['rules', 'explain', 'A', '--file', bad])).toMatchObject({
    ...{
      code: 1,
      out: '',
      err: expect.stringContaining('channels.A.policy: policy must be one of those under policies'),
    },
  });
  const none = await fuselineHere(['rules', 'explain', 'A'], settings());
  expect(none).toMatchObject({ code: 0, err: 'there are no rules: these are the defaults\n' });
  expect(none.out).toMatch(/^mode +observe +default$/m);
});
