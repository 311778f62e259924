// The load of the throughput benchmark: 20 channels, 2 % failures, as a publisher would have sent them.

import { shardOf } from '../dist/src/domain/shard.js';

export const CHANNELS = Array.from({ length: 20 }, (_, i) => `channel-${String(i).padStart(2, '0')}`);
export const FAILURES = 0.02;
export const PER_ENTRY = 100;

/** Judges all, blocks none: a blocked channel would cost less than one that is judged. */
export const POLICY = {
  mode: 'on',
  window: { kind: 'count', size: 10 },
  successRate: 1_000,
  block: { forMs: 30 * 60_000, growth: 1, maxMs: 30 * 60_000 },
  holdMs: 30 * 60_000,
  ignore: [],
};

/** The same load in every run: mulberry32. */
export function randomFrom(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** @param {number} count */
export function outcomes(count) {
  const random = randomFrom(42);
  return Array.from({ length: count }, () => {
    const channel = CHANNELS[Math.floor(random() * CHANNELS.length)];
    const success = random() >= FAILURES;
    const durationMs = 20 + Math.floor(random() * 400);
    const agoMs = Math.floor(random() * 6);
    const source = `checkout@web-${Math.floor(random() * 8)}`;
    return success
      ? { channel, success, durationMs, source, agoMs }
      : { channel, success, durationMs, code: 'SYSTEM_ERROR', source, agoMs };
  });
}

/**
 * Packs outcomes into entries as the publisher does: by shard, in order.
 *
 * @returns {[shard: number, json: string][]}
 */
export function entries(all, shards) {
  const open = Array.from({ length: shards }, () => []);
  const packed = [];
  for (const outcome of all) {
    const shard = shardOf(outcome.channel, shards);
    open[shard].push(outcome);
    if (open[shard].length === PER_ENTRY) packed.push([shard, JSON.stringify(open[shard].splice(0))]);
  }
  for (const [shard, rest] of open.entries()) if (rest.length > 0) packed.push([shard, JSON.stringify(rest)]);
  return packed;
}
