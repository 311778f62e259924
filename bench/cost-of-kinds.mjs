// What each kind of window costs Redis: CPU time of its main thread an outcome. And that a plain channel costs what it
// did before there were other kinds: the scripts of that time on the same server, in turn with those of now.

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { recordArgs } from '../dist/src/channel/record.js';
import { sequentialTest } from '../dist/src/domain/window/sequential-test.js';
import { Keys } from '../dist/src/redis/keys.js';
import { loadScript } from '../dist/src/redis/script.js';
import { alternate, quantile, spread } from './figures.mjs';
import { FAILURES, POLICY, randomFrom } from './load.mjs';

const ROUNDS = 12;
const CALLS = 200;
const PER_CALL = 100;
const CHANNELS = 20;
const FRESH_MS = 300_000;
/** The last commit that knew counts alone in the plain case: its script takes one argument and one key less. */
const BEFORE = '2570f41';
/** Broken beyond it; within it lies what a machine that does other work makes of two equal scripts. */
const MOST = 1.2;
const BEFORE_ROUNDS = 40;

const span = { spanMs: 60_000, minCalls: 5 };
/** Judged, and so that nothing is blocked. */
const never = { ...POLICY, successRate: 0 };
const KINDS = {
  'count of 10': never,
  'time, 60 slots': { ...never, window: { kind: 'time', ...span, slots: 60 } },
  'call log, 1,000 calls': { ...never, window: { kind: 'log', ...span, maxEntries: 1_000 } },
  'sequential test': {
    ...never,
    window: {
      kind: 'sequential',
      healthy: 9_500,
      failing: 5_000,
      falseBlocks: 1e-6,
      ...sequentialTest(0.95, 0.5, 1e-6),
    },
  },
  'count of 10, all rules beside the rate': {
    ...never,
    ...{ slow: { overMs: 60_000, rate: 9_999 }, minFailures: 10, maxConsecutiveFailures: 100, minSources: 2 },
    rateLimit: { minMs: 1_000, maxMs: 60_000 },
  },
};

/** @returns {Promise<boolean>} whether a plain channel costs what it did */
export async function costOfKinds(client) {
  let positions = 0;
  let run = 0;
  const random = randomFrom(7);

  /** `share` of failures; what is in the batch is the same for every contender of a round, as near as chance has it. */
  function batchOf(share) {
    const results = Array.from({ length: PER_CALL }, () => (random() < share ? '0' : '1')).join('');
    const evidence = [...results].filter((one) => one === '0').map(() => '{"at":1,"code":"E","source":"a"}');
    const times = [...results].flatMap(() => [3, 120]);
    positions += 1;
    return { partition: 'bench/log/0/0', results, entries: [[String(positions), 0, PER_CALL]], times, evidence };
  }

  /** µs of Redis an outcome. `adapt`: keys and arguments as the script takes them. */
  async function measure({ policy, share, script = NOW, adapt = (keys, args) => [keys, args] }) {
    run += 1;
    const keys = new Keys(`bench:kinds:${run}:`);
    const calls = Array.from({ length: CALLS }, (_, i) => {
      const [names, args] = adapt(keys.channel(`C${i % CHANNELS}`), recordArgs(policy, FRESH_MS, batchOf(share)));
      return [names.length, ...names, ...args];
    });
    await client.script('LOAD', script.source);
    const before = await cpuSeconds(client);
    const pipeline = client.pipeline();
    for (const call of calls) pipeline.evalsha(script.sha, ...call);
    for (const [error] of await pipeline.exec()) if (error) throw error;
    const usec = 1e6 * ((await cpuSeconds(client)) - before);
    const all = Array.from({ length: CHANNELS }, (_, i) => keys.channel(`C${i}`));
    for (const names of all) await client.del(...names);
    return usec / (CALLS * PER_CALL);
  }

  console.log(
    `cost in Redis, µs an outcome: ${PER_CALL} a call, ${CHANNELS} channels, lower quartile of ${ROUNDS} rounds`,
  );
  for (const [what, share] of [
    ['all good', 0],
    [`${FAILURES * 100} % failures`, FAILURES],
  ]) {
    const figures = await alternate(
      Object.fromEntries(Object.entries(KINDS).map(([name, policy]) => [name, () => measure({ policy, share })])),
      ROUNDS,
    );
    for (const name of Object.keys(KINDS)) {
      const times = low(figures[name]) / low(figures['count of 10']);
      console.log(`  ${name.padEnd(40)} ${what.padEnd(14)} ${shown(figures[name])}  ${times.toFixed(1)} × the count's`);
    }
  }
  return await asBefore(measure);
}

async function asBefore(measure) {
  const script = scriptOf(BEFORE);
  if (script === undefined) {
    console.log(`  the scripts of ${BEFORE} are not there to compare with: this is no clone with its whole history`);
    return true;
  }
  // One argument less (rules beside the rate, empty for a plain policy), one key less (the calls of a log).
  const adapt = (keys, args) => {
    if (args[9] !== '') throw new Error('the policy is no plain one');
    return [keys.slice(0, 7), args.toSpliced(9, 1)];
  };
  let isKept = true;
  for (const [what, share] of [
    ['all good', 0],
    [`${FAILURES * 100} % failures`, FAILURES],
    ['50 % failures', 0.5],
  ]) {
    const figures = await alternate(
      {
        now: () => measure({ policy: never, share }),
        before: () => measure({ policy: never, share, script, adapt }),
      },
      BEFORE_ROUNDS,
    );
    const ratio = low(figures.now) / low(figures.before);
    isKept &&= ratio <= MOST;
    const verdict = ratio <= MOST ? '' : `  BROKEN: at most ${MOST}`;
    console.log(`  plain channel, now / before other kinds  ${what.padEnd(14)} ${ratio.toFixed(2)}${verdict}`);
  }
  return isKept;
}

/** Whatever else the machine does makes a figure larger, never smaller: so the quarter that was disturbed least. */
const low = (figures) => quantile(figures, 0.25);

const shown = (figures) => {
  const { min, max } = spread(figures);
  return `${low(figures).toFixed(2).padStart(6)} µs  (${min.toFixed(2)} to ${max.toFixed(2)})`;
};

/** CPU time, not time: what else the machine does is not counted. */
async function cpuSeconds(client) {
  const info = await client.info('cpu');
  const [user, system] = ['user', 'sys'].map(
    (name) => new RegExp(`^used_cpu_${name}_main_thread:(.*)$`, 'm').exec(info)[1],
  );
  return Number(user) + Number(system);
}

const NOW = loadScript('record');

/** `record.lua` as a commit has it, its includes resolved; `undefined` where that commit is not known here. */
function scriptOf(commit) {
  const cwd = fileURLToPath(new URL('..', import.meta.url));
  const read = (file) => {
    const text = execFileSync('git', ['show', `${commit}:lua/${file}`], { cwd, encoding: 'utf8', stdio: 'pipe' });
    return text.replace(/^-- include (\S+)$/gm, (_line, included) => read(included));
  };
  try {
    const source = read('record.lua');
    return { source, sha: createHash('sha1').update(source).digest('hex') };
  } catch {
    return undefined;
  }
}
