import { execFile } from 'node:child_process';
import { chmod, mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { readRecordedLine, recordedLine } from '../../src/recording/line.js';
import { Recorder, type RecorderEvents } from '../../src/recording/recorder.js';
import { folder, START } from '../replay/support.js';
import { checkout } from '../support/files.js';
import { until } from '../support/wait.js';

const run = promisify(execFile);

function recorderOf(path: string, { maxBytes = 100_000, files = 3 } = {}) {
  const seen = { written: 0, dropped: 0, troubles: [] as [message: string, first: boolean][], cured: 0 };
  const events: RecorderEvents = {
    onWritten: (lines) => (seen.written += lines),
    onDropped: (lines) => (seen.dropped += lines),
    onTrouble: (error, first) => seen.troubles.push([error.message, first]),
    onCured: () => (seen.cured += 1),
  };
  return { seen, recorder: new Recorder({ path, maxBytes, files, ...events }) };
}

const line = (i: number) => recordedLine({ channel: `微信-${i}`, success: false, code: 'TIMEOUT' }, START + i);

it('keeps outcomes as lines that are read back as they were, and leaves out what is no field of an outcome', () => {
  const outcome = { channel: '微信', success: true, durationMs: 3, at: 1_700_000_000_000, card: '4111 1111' };
  const place = { partition: 'redis-stream/fuseline:outcomes/0/1', position: '1700000000000-3' };
  const text = recordedLine(outcome, START, place);
  expect(text.endsWith('\n')).toBe(true);
  expect(text).not.toContain('4111');
  const odd = { channel: '"\\ü', success: false, code: 'a\nb', at: JSON.parse('1e999') as number };
  expect(JSON.parse(recordedLine(odd, START))).toEqual({
    arrivalMs: START,
    channel: '"\\ü',
    success: false,
    code: 'a\nb',
  });
  expect(readRecordedLine(text)).toMatchObject({
    ok: true,
    recorded: { arrivalMs: START, place, outcome: { channel: '微信' } },
  });
});

it('puts a full file aside, keeps as many as asked for, and none is larger than allowed or cut within a line', async () => {
  const { path } = await folder();
  const file = join(path, 'outcomes.ndjson');
  const { recorder, seen } = recorderOf(file);
  for (let i = 0; i < 5_000; i += 1) recorder.add(line(i));
  await recorder.close();
  expect(seen).toMatchObject({ written: 5_000, dropped: 0, troubles: [] });
  expect((await readdir(path)).sort()).toEqual(['outcomes.ndjson', 'outcomes.ndjson.1', 'outcomes.ndjson.2']);
  const kept: number[] = [];
  for (const name of ['outcomes.ndjson.2', 'outcomes.ndjson.1', 'outcomes.ndjson']) {
    const { size, mode } = await stat(join(path, name));
    expect(size).toBeLessThanOrEqual(100_000);
    expect((mode & 0o777).toString(8)).toBe('600');
    const text = await readFile(join(path, name), 'utf8');
    kept.push(
      ...text
        .trimEnd()
        .split('\n')
        .map((each) => JSON.parse(each).arrivalMs - START),
    );
  }
  expect(kept.length).toBeGreaterThan(1_500);
  expect(kept).toEqual(Array.from({ length: kept.length }, (_, i) => 5_000 - kept.length + i));
});

it('goes on behind what the file held, takes a file that others could read back, and turns none that another process has turned', async () => {
  const { path } = await folder();
  const file = join(path, 'outcomes.ndjson');
  await writeFile(file, 'before\nhalf a li');
  await chmod(file, 0o644);
  const [one, other] = [recorderOf(file), recorderOf(file)];
  for (let round = 0; round < 30; round += 1) {
    for (const { recorder } of [one, other]) {
      for (let i = 0; i < 50; i += 1) recorder.add(line(i));
      await recorder.flush();
    }
    if (round === 0) expect((await readFile(file, 'utf8')).startsWith(`before\nhalf a li\n${line(0)}`)).toBe(true);
    if (round === 0) expect((await stat(file)).mode & 0o077).toBe(0);
  }
  await Promise.all([one.recorder.close(), other.recorder.close()]);
  expect([one.seen.written, other.seen.written]).toEqual([1_500, 1_500]);
  const sizes = await Promise.all((await readdir(path)).map(async (name) => (await stat(join(path, name))).size));
  expect(sizes.filter((size) => size > 60_000).length).toBe(sizes.length - 1);
  expect(Math.max(...sizes)).toBeLessThanOrEqual(100_000);
});

it('tells once that a file cannot be written, counts what is lost, and goes on when it can', async () => {
  const { path } = await folder();
  const file = join(path, 'missing', 'outcomes.ndjson');
  const { recorder, seen } = recorderOf(file);
  for (const i of [1, 2, 3]) {
    recorder.add(line(i));
    await recorder.flush();
  }
  expect(seen.troubles.map(([, first]) => first)).toEqual([true, false, false]);
  expect(seen.troubles[0]![0]).toContain('ENOENT');
  expect(seen).toMatchObject({ written: 0, dropped: 3 });
  await mkdir(join(path, 'missing'));
  recorder.add(line(4));
  await recorder.close();
  expect(seen).toMatchObject({ written: 1, dropped: 3, cured: 1 });
  expect(await readFile(file, 'utf8')).toBe(line(4));
});

it.each([
  ['a folder', async (file: string) => mkdir(file), /EISDIR|is a directory|not a regular file/],
  ['a pipe that nobody reads', async (file: string) => run('mkfifo', [file]), /ENXIO|not a regular file/],
  ['a link to another file', async (file: string) => symlink('/dev/null', file), /ELOOP|symbolic link/],
])('refuses %s in place of the file, without hanging', async (_what, make, why) => {
  const { path } = await folder();
  const file = join(path, 'outcomes.ndjson');
  await make(file);
  const { recorder, seen } = recorderOf(file);
  recorder.add(line(1));
  await recorder.close();
  expect(seen).toMatchObject({ written: 0, dropped: 1 });
  expect(seen.troubles[0]![0]).toMatch(why);
});

it('drops what the disk does not take in time instead of waiting for it', async () => {
  const { path } = await folder();
  const { recorder, seen } = recorderOf(join(path, 'outcomes.ndjson'), { maxBytes: 100_000_000 });
  const long = `${'x'.repeat(100_000)}\n`;
  // Within one turn of the event loop nothing is written.
  for (let i = 0; i < 200; i += 1) recorder.add(long);
  expect(recorder.isFull).toBe(true);
  expect(seen.dropped).toBeGreaterThan(20);
  await recorder.close();
  expect(seen.written + seen.dropped).toBe(200);
  expect(recorder.isFull).toBe(false);
});

it('begins a line of its own after a write that the disk refused in the middle', async () => {
  const { path } = await folder();
  const file = join(path, 'outcomes.ndjson');
  // The most that this process may write into a file stands in for a disk that is full.
  const program = `
    import { Recorder } from '${checkout}dist/src/recording/recorder.js';
    const seen = { written: 0, dropped: 0 };
    const recorder = new Recorder({ path: '${file}', maxBytes: 1e9, files: 1,
      onWritten: (n) => { seen.written += n }, onDropped: (n) => { seen.dropped += n } });
    for (let i = 0; i < 3; i += 1) { recorder.add('x'.repeat(29_999) + '\\n'); await recorder.flush(); }
    await import('node:fs').then((fs) => fs.truncateSync('${file}', 40_000));
    recorder.add('last\\n');
    await recorder.close();
    console.log(JSON.stringify(seen));`;
  const limited = `ulimit -f 64 && exec "${process.execPath}" --input-type=module -e "$PROGRAM"`;
  const { stdout } = await run('bash', ['-c', limited], { env: { ...process.env, PROGRAM: program } });
  const lines = (await readFile(file, 'utf8')).split('\n').map(({ length }) => length);
  // Two whole lines would be 60,000; the second refusal cut the third one within.
  expect(JSON.parse(stdout)).toEqual({ written: 3, dropped: 1 });
  expect(lines).toEqual([29_999, 10_000, 4, 0]);
});

it('writes by itself, soon, without being asked', async () => {
  const { path } = await folder();
  const { recorder, seen } = recorderOf(join(path, 'outcomes.ndjson'));
  recorder.add(line(1));
  await until(() => seen.written === 1, { what: 'the line to be written', timeoutMs: 5_000 });
  await recorder.close();
});
