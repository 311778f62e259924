// Small things that every benchmark needs: order statistics, rounds that alternate, lines that say where they were measured.

import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';

/** @param {readonly number[]} values @param {number} share 0 to 1 */
export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1))];
}

/** @param {readonly number[]} values */
export const median = (values) => quantile(values, 0.5);

/** @param {readonly number[]} values */
export function spread(values) {
  return { min: Math.min(...values), median: median(values), max: Math.max(...values) };
}

/**
 * Runs every contender once per round, each round in another order: what the machine does meanwhile hits all of them. One round before
 * that warms up and is not counted.
 *
 * @param {Record<string, () => Promise<number>>} contenders each resolves to its figure
 * @param {number} rounds
 * @returns {Promise<Record<string, number[]>>}
 */
export async function alternate(contenders, rounds) {
  const names = Object.keys(contenders);
  const figures = Object.fromEntries(names.map((name) => [name, []]));
  for (let round = 0; round <= rounds; round += 1) {
    const shift = round % names.length;
    for (const name of [...names.slice(shift), ...names.slice(0, shift)]) {
      const figure = await contenders[name]();
      if (round > 0) figures[name].push(figure);
    }
  }
  return figures;
}

/** The ratio of two contenders round by round, so that a slow minute of the machine cancels out. */
export function ratios(figures, one, other) {
  return figures[one].map((figure, round) => figure / figures[other][round]);
}

export const whole = (n) => Math.round(n).toLocaleString('en-US');

/** @param {import('ioredis').Redis} client */
export async function machine(client) {
  const server = await client.info('server');
  const name = /^(?:valkey|redis)_version/m.exec(server)?.[0].replace('_version', '') ?? 'redis';
  const version = new RegExp(`^${name}_version:(.*)$`, 'm').exec(server)?.[1].trim();
  const model = cpus()[0]?.model.trim() ?? 'unknown';
  const packages = ['ioredis', 'bullmq'].map((each) => `${each} ${versionOf(each)}`);
  return `${cpus().length} cores (${model}), Node ${process.versions.node}, ${name} ${version}, ${packages.join(', ')}`;
}

function versionOf(name) {
  return JSON.parse(readFileSync(new URL(`../node_modules/${name}/package.json`, import.meta.url), 'utf8')).version;
}
