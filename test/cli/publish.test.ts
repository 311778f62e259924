import { expect, it } from 'vitest';
import { startProcess } from '../support/processes.js';
import { place } from './place.js';
import { fuseline } from './run.js';

function log() {
  const { client, keys, env } = place();
  /** Every outcome in the log, shard by shard, in order. */
  async function logged(): Promise<Record<string, unknown>[]> {
    const shards = await Promise.all([0, 1, 2, 3].map((shard) => client.xrange(keys.outcomes(shard), '-', '+')));
    return shards.flat().flatMap(([, fields]) => JSON.parse(fields[fields.indexOf('outcomes') + 1]!));
  }
  return { env, client, keys, logged };
}

it('publishes one outcome given by flags', async () => {
  const { env, logged } = log();
  const flags = ['--channel', '微信支付', '--failure', '--code', 'TIMEOUT', '--duration', '3s'];
  flags.push('--source', 'till-7', '--retry-after', '20s');
  expect(await fuseline(['publish', ...flags], env)).toEqual({
    code: 0,
    out: 'sent 1, invalid 0, unsent 0, unknown 0\n',
    err: '',
  });
  expect(await logged()).toEqual([
    {
      channel: '微信支付',
      success: false,
      code: 'TIMEOUT',
      durationMs: 3_000,
      retryAfterMs: 20_000,
      source: 'till-7',
      agoMs: expect.any(Number),
    },
  ]);
});

it('publishes NDJSON in order, tells each bad line by its number, and ends with 1 because something was left out', async () => {
  const { env, logged } = log();
  const lines = [
    '\ufeff{"channel":"A","success":true}',
    '',
    'nonsense',
    '{"channel":"A","success":"maybe"}',
    '{"channel":"A","success":false,"agoMs":5000}',
    `{"channel":"A","success":true,"code":"${'x'.repeat(2_000_000)}"}`,
    '{"channel":"{A}","success":true}',
    '[]',
    '{"channel":"A","success":true}',
  ];
  const { code, out, err } = await fuseline(['publish'], env, lines.join('\n'));
  expect(code).toBe(1);
  expect(out).toBe('sent 3, invalid 5, unsent 0, unknown 0\n');
  expect(err).toMatch(/^line 3: not JSON/m);
  expect(err).toMatch(/^line 4: success/m);
  expect(err).toMatch(/^line 6: a line may have 1048576 bytes at most, got 2000\d\d\d$/m);
  expect(err).toMatch(/^line 7: channel must not hold/m);
  expect(err).toMatch(/^line 8: /m);
  expect(err).toMatch(/^fuseline: 3 sent, but 5 invalid \(lines 3-4, 6-8\)$/m);
  const outcomes = await logged();
  expect(outcomes.map(({ success }) => success)).toEqual([true, false, true]);
  expect(outcomes[1]!.agoMs).toBeGreaterThanOrEqual(5_000);
});

it('tells a line that is not UTF-8, and goes on', async () => {
  const { env } = log();
  const input = Buffer.concat([
    Buffer.from('{"channel":"A'),
    Buffer.from([0xff]),
    Buffer.from('","success":true}\n{"channel":"A","success":true}\n'),
  ]);
  const { code, out, err } = await fuseline(['publish'], env, input);
  expect(err).toMatch(/^line 1: not UTF-8$/m);
  expect({ code, out }).toEqual({ code: 1, out: 'sent 1, invalid 1, unsent 0, unknown 0\n' });
});

it('publishes 20,000 lines without losing one', async () => {
  const { env, logged } = log();
  const lines = Array.from({ length: 20_000 }, (_, i) => `{"channel":"c${i % 7}","success":true,"code":"${i}"}\n`);
  const { code, out } = await fuseline(['publish'], env, lines.join(''));
  expect({ code, out }).toEqual({ code: 0, out: 'sent 20000, invalid 0, unsent 0, unknown 0\n' });
  const codes = (await logged()).map(({ code }) => Number(code));
  expect(codes.sort((a, b) => a - b)).toEqual(Array.from({ length: 20_000 }, (_, i) => i));
});

it('says at once that Redis refuses, tries again, and tells which lines were not sent when interrupted', async () => {
  const { env, client, keys } = log();
  // A key of another type at every shard: Redis refuses each XADD.
  for (const shard of [0, 1, 2, 3]) await client.set(keys.outcomes(shard), 'not a stream');
  const running = startProcess('dist/src/cli/main.js', ['publish', '--channel', 'A', '--success'], env);
  await running.waitForLine(/^fuseline: the log does not take them, trying again for 30 s: WRONGTYPE/);
  running.kill('SIGINT');
  expect(await running.exited).toEqual({ code: 1, signal: null });
  expect(running.lines).toContain('sent 0, invalid 0, unsent 1, unknown 0');
  expect(running.lines.join('\n')).toMatch(
    /fuseline: 0 sent, but 1 not sent \(line 1\); interrupted by SIGINT.*WRONGTYPE/,
  );
});
