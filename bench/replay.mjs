// What a look into the past costs: `fuseline replay`, the command itself, on a recording of a million outcomes.

import { execFile } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { recordedLine } from '../dist/src/recording/line.js';
import { alternate, spread, whole } from './figures.mjs';

const run = promisify(execFile);
const OUTCOMES = 1_000_000;
const CHANNELS = 20;
const ROUNDS = 3;
const WANTED_MS = 60_000;
const START = Date.UTC(2026, 0, 1);

const RULES = {
  count: { mode: 'on', defaults: { window: 10, successRate: 70 } },
  time: { mode: 'on', defaults: { window: { kind: 'time', span: '10s' }, successRate: 50 } },
};

/** @returns {Promise<boolean>} whether the promise was kept */
export async function replay() {
  const folder = await mkdtemp(join(tmpdir(), 'fuseline-bench-'));
  try {
    const file = join(folder, 'outcomes.ndjson');
    await record(file);
    const paths = {};
    for (const [name, rules] of Object.entries(RULES)) {
      paths[name] = join(folder, `${name}.yaml`);
      await writeFile(paths[name], JSON.stringify(rules));
    }
    const figures = await alternate(
      {
        'a count window': () => time([paths.count, file]),
        'a time window': () => time([paths.time, file]),
        'both, side by side': () => time([paths.count, '--against', paths.time, file]),
      },
      ROUNDS,
    );
    console.log(`replay of ${whole(OUTCOMES)} recorded outcomes, ms until the report, median of ${ROUNDS} rounds`);
    let kept = true;
    for (const [name, all] of Object.entries(figures)) {
      const { min, median, max } = spread(all);
      const ok = median <= WANTED_MS;
      kept &&= ok;
      const rate = whole((OUTCOMES / median) * 1_000);
      console.log(
        `  ${name.padEnd(20)} ${whole(median).padStart(7)} ms  (${whole(min)} to ${whole(max)}), ${rate} outcomes/s${ok ? '' : `  MISSED: wanted ${whole(WANTED_MS)} ms`}`,
      );
    }
    return kept;
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function time(args) {
  const startedAt = performance.now();
  const { stdout } = await run(process.execPath, ['dist/src/cli/main.js', 'replay', '--json', ...args], {
    maxBuffer: 1 << 28,
  });
  const ms = performance.now() - startedAt;
  const { outcomes, ruleSets } = JSON.parse(stdout);
  if (outcomes !== OUTCOMES || ruleSets[0].blocks === 0) throw new Error('the replay did not see the whole past');
  return ms;
}

/** Ten ms between outcomes, as workers record them; 2 % fail, and now and then a channel for three minutes. */
async function record(file) {
  let seed = 1;
  const random = () => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return seed / 2_147_483_648;
  };
  const out = createWriteStream(file);
  for (let i = 0; i < OUTCOMES; ) {
    let text = '';
    for (const end = Math.min(OUTCOMES, i + 10_000); i < end; i += 1) {
      const channel = Math.floor(random() * CHANNELS);
      const sick = Math.floor(i / 20_000) % CHANNELS === channel;
      const success = random() >= (sick ? 0.7 : 0.02);
      const outcome = { channel: `channel-${channel}`, success, durationMs: 120, agoMs: 3, source: 'checkout@web-1' };
      const place = { partition: `redis-stream/fuseline:outcomes/${channel % 4}/1`, position: `${START + 10 * i}-0` };
      text += recordedLine(success ? outcome : { ...outcome, code: 'TIMEOUT' }, START + 10 * i, place);
    }
    if (!out.write(text)) await new Promise((resolve) => out.once('drain', resolve));
  }
  await new Promise((resolve, reject) => out.end((error) => (error ? reject(error) : resolve())));
}
