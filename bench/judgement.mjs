// How rules judge: false blocks per million calls of a channel that is steadily a bit bad, and calls until the block of one that drops.
// Needs no Redis: the windows are the model's own, which the scripts are held against call by call.

import { PRESET_NAMES, presetOf } from '../dist/src/domain/presets.js';
import { parseRulesValue } from '../dist/src/domain/rules.js';
import { whyBlocked } from '../dist/src/domain/verdict.js';
import { loadWindow } from '../dist/src/domain/window/load.js';
import { whole } from './figures.mjs';

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

/** Everything that is measured: name → policy, its traffic, and the figures that stand in the code, if any. */
export function measured() {
  const policyOf = (rule) => {
    const parsed = parseRulesValue({ mode: 'on', defaults: rule });
    if (!parsed.ok) throw new Error(parsed.problems[0]?.message);
    return parsed.rules.policyFor('any');
  };
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
 * Prints the table of docs/judging.md. The seeds are fixed: it is the same each time.
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
  return isTrue;
}
