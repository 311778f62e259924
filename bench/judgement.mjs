// How rules judge: false blocks per million calls of a channel that is steadily a bit bad, and calls until the block of one that drops.
// Needs no Redis: the windows are the model's own, which the scripts are held against call by call.

import { ChannelModel } from '../dist/src/domain/channel-model.js';
import { PRESET_NAMES, presetOf } from '../dist/src/domain/presets.js';
import { parseRulesValue } from '../dist/src/domain/rules.js';
import { whyBlocked } from '../dist/src/domain/verdict.js';
import { loadWindow } from '../dist/src/domain/window/load.js';
import { spread, whole } from './figures.mjs';

/** Numbers from 0 to 1 that are the same each time (mulberry32). */
export function seeded(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/**
 * A channel under a policy, at so many calls a second on average, at random times.
 *
 * @param {import('../dist/src/domain/policy.js').Policy} policy
 * @returns {(successes: number) => boolean} makes one call at this share of successes; true: it blocked, and the window is empty again
 */
function channelUnder(policy, callsPerSecond, random) {
  const window = loadWindow(policy, undefined);
  let now = 1_000_000;
  let run = 0;
  return (successes) => {
    now -= (Math.log(1 - random()) * 1_000) / callsPerSecond;
    const isSuccess = random() < successes;
    window.push(isSuccess ? '1' : '0', Math.floor(now));
    run = isSuccess ? 0 : run + 1;
    if (isSuccess || whyBlocked(policy, window, run) === undefined) return false;
    window.clear();
    run = 0;
    return true;
  };
}

/** Blocks per million calls at a steady share of successes: every one of them is false if that share is good enough. */
export function falseBlocks(policy, { callsPerSecond, successes, calls, seed }) {
  const call = channelUnder(policy, callsPerSecond, seeded(seed));
  let blocks = 0;
  for (let i = 0; i < calls; i += 1) if (call(successes)) blocks += 1;
  return (blocks / calls) * 1e6;
}

/** Calls until the block when a channel drops from 99 % to this share, median of many drops; Infinity: not within 2,000. */
export function callsToBlock(policy, { callsPerSecond, successes, drops, seed }) {
  const random = seeded(seed);
  const lengths = Array.from({ length: drops }, () => {
    const call = channelUnder(policy, callsPerSecond, random);
    for (let i = 0; i < 200; i += 1) call(0.99);
    for (let i = 1; i <= 2_000; i += 1) if (call(successes)) return i;
    return Number.POSITIVE_INFINITY;
  });
  return lengths.sort((a, b) => a - b)[Math.floor(drops / 2)];
}

const MINUTE_MS = 60_000;
/** Between two outages: half a day. */
const WELL_MS = 720 * MINUTE_MS;

/**
 * A channel that is down again and again, each time for `outageMs()`: it answers with failures whenever it is not hidden, and a second after
 * a block at the latest.
 *
 * @returns {{ firstMs: number, relapses: number, hiddenMs: number }[]} of each outage: its first block, how many more followed, and for how
 *   long the channel was still hidden when it was well
 */
export function outages(policy, count, outageMs) {
  const model = new ChannelModel('ALIPAY');
  let now = 1_800_000_000_000;
  let position = 0;
  return Array.from({ length: count }, () => {
    const wellAt = now + outageMs();
    const told = { firstMs: 0, relapses: -1, hiddenMs: 0 };
    while (now < wellAt) {
      position += 1;
      const entries = [[String(position), 0, policy.window.size]];
      model.record(
        policy,
        { partition: 'p', results: '0'.repeat(policy.window.size), entries, times: [], evidence: [] },
        now,
      );
      const { at, until } = model.takeTransitions().find(({ to }) => to === 'open');
      told.relapses += 1;
      if (told.relapses === 0) told.firstMs = until - at;
      told.hiddenMs = Math.max(0, until - wellAt);
      now = until + 1_000;
      model.recover(policy, now);
    }
    now += policy.holdMs;
    model.recover(policy, now);
    now += WELL_MS;
    return told;
  });
}

const OUTAGES = 300;
const SETTLED = 100;

/** Prints how long blocks become that are learned from past incidents, beside those that are not. */
function blockLengths() {
  console.log('\nblocks of 1 min, growth 2, at most 4 h: first block, relapses an incident, hidden after the outage\n');
  console.log('| outages of | timesMean | first block (lowest to highest) | relapses | still hidden |');
  console.log('| --- | --- | --- | --- | --- |');
  const random = seeded(5);
  const lengths = {
    '5 min': () => 5 * MINUTE_MS,
    '30 min': () => 30 * MINUTE_MS,
    '10 min on average (exponential)': () => -Math.log(1 - random()) * 10 * MINUTE_MS,
  };
  for (const [name, outageMs] of Object.entries(lengths)) {
    for (const timesMean of [undefined, 2.5]) {
      const policy = policyOf({
        window: 10,
        block: { for: '1m', growth: 2, max: '4h', ...(timesMean && { timesMean }) },
      });
      const settled = outages(policy, OUTAGES, outageMs).slice(SETTLED);
      const mean = (values) => (values.reduce((sum, value) => sum + value, 0) / settled.length).toFixed(1);
      const { min, max } = spread(settled.map(({ firstMs }) => firstMs / MINUTE_MS));
      const first = `${min.toFixed(1)} to ${max.toFixed(1)} min`;
      const hidden = `${mean(settled.map(({ hiddenMs }) => hiddenMs / MINUTE_MS))} min`;
      console.log(
        `| ${[name, timesMean ?? 'none', first, mean(settled.map(({ relapses }) => relapses)), hidden].join(' | ')} |`,
      );
    }
  }
}

/** Rules to compare the presets with. */
const OTHERS = {
  'window 10, 70 %': { window: 10, successRate: 70 },
  'window 20, 50 %': { window: 20, successRate: 50 },
  'sequential 95 to 50, 1 per million': { window: { kind: 'sequential', healthy: 95, failing: 50 } },
  'sequential 90 to 50, 10 per million': {
    window: { kind: 'sequential', healthy: 90, failing: 50, falseBlocks: '10 per million' },
  },
};
const OTHERS_CALLS_PER_SECOND = 10;
export const STEADY = [0.95, 0.9, 0.8];
export const DROPPED = [0, 0.5];

function policyOf(rule) {
  const parsed = parseRulesValue({ mode: 'on', defaults: rule });
  if (!parsed.ok) throw new Error(parsed.problems[0]?.message);
  return parsed.rules.policyFor('any');
}

/** Everything that is measured: name → policy, its traffic, and the figures that stand in the code, if any. */
export function measured() {
  const others = Object.entries(OTHERS).map(([name, rule]) => {
    return { name, policy: policyOf(rule), callsPerSecond: OTHERS_CALLS_PER_SECOND };
  });
  const presets = PRESET_NAMES.map((name) => {
    const { rule, figures } = presetOf(name);
    return { name, policy: policyOf(rule), callsPerSecond: figures.callsPerSecond, figures };
  });
  return [...presets, ...others];
}

/** How the table tells traffic. */
export function traffic(callsPerSecond) {
  return callsPerSecond >= 1 ? `${callsPerSecond} a second` : `${Math.round(callsPerSecond * 60)} a minute`;
}

/**
 * Prints the tables of docs/judging.md. The seeds are fixed: it is the same each time.
 *
 * @returns {Promise<boolean>} false: a preset does not do what src/domain/presets.ts says of it
 */
export async function judgement() {
  console.log('judgement: false blocks per million calls, and median calls until the block\n');
  console.log('| rule | calls | 95 % | 90 % | 80 % | to 0 % | to 50 % |');
  console.log('| --- | --- | --- | --- | --- | --- | --- |');
  let isTrue = true;
  for (const { name, policy, callsPerSecond, figures } of measured()) {
    const blocks = STEADY.map((successes, i) =>
      Math.round(falseBlocks(policy, { callsPerSecond, successes, calls: 1_000_000, seed: 7 + i })),
    );
    const calls = DROPPED.map((successes, i) =>
      callsToBlock(policy, { callsPerSecond, successes, drops: 1_000, seed: 99 + i }),
    );
    console.log(`| ${[name, traffic(callsPerSecond), ...blocks.map(whole), ...calls.map(whole)].join(' | ')} |`);
    const told = figures && [...figures.falseBlocks, ...figures.callsToBlock];
    if (told === undefined || told.join() === [...blocks, ...calls].join()) continue;
    console.log(`  src/domain/presets.ts says ${told.join(', ')}`);
    isTrue = false;
  }
  blockLengths();
  return isTrue;
}
