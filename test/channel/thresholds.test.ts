import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CountWindow } from '../../src/domain/window/count-window.js';
import { bench, policyOf, Twin } from './support.js';

describe('the threshold of a count window', () => {
  it.each([
    { size: 10, rate: 70, story: 'FFF', percent: 70, blocks: false },
    { size: 10, rate: 70, story: 'FFFF', percent: 60, blocks: true },
    { size: 10, rate: 70, story: 'FFSSS', percent: 80, blocks: false },
    { size: 5, rate: 60, story: 'FF', percent: 60, blocks: false },
    { size: 5, rate: 60, story: 'FFF', percent: 40, blocks: true },
  ])('N $size, $rate %, $story: $percent % of successes, blocks: $blocks, in Lua and in TypeScript', async (row) => {
    const channel = new Twin(await bench());
    const { recorded, succeeded, blocked } = await channel.record(row.story, policyOf(row));
    expect({ blocked, percent: ((row.size - recorded + succeeded) / row.size) * 100 }).toEqual({
      blocked: row.blocks,
      percent: row.percent,
    });
  });

  it('1.01 counts slots never recorded as successes, so that the third failure of a fresh channel blocks and the second does not', async () => {
    const channel = new Twin(await bench());
    expect(await channel.record('F')).toMatchObject({ blocked: false });
    expect(await channel.record('F')).toMatchObject({ blocked: false, recorded: 2, succeeded: 0 });
    expect(await channel.record('F')).toMatchObject({ blocked: true, recorded: 3, succeeded: 0 });
  });

  it('1.02 does not block at one failure of ten, blocks at one of one, and never with threshold 0', async () => {
    const env = await bench();
    expect(await new Twin(env).record('F')).toMatchObject({ blocked: false });
    const one = new Twin({ ...env, keys: (await bench()).keys });
    expect(await one.record('F', policyOf({ size: 1, rate: 100 }))).toMatchObject({ blocked: true });
    const never = new Twin({ ...env, keys: (await bench()).keys });
    expect(await never.record('F'.repeat(50), policyOf({ size: 1, rate: 0 }))).toMatchObject({ blocked: false });
  });

  it('blocks at the first failure with threshold 100, whatever the size', async () => {
    const channel = new Twin(await bench());
    expect(await channel.record('F', policyOf({ size: 1_000, rate: 100 }))).toMatchObject({ blocked: true });
  });

  it.each([
    [50, 14, 7],
    [100, 55, 55],
    [5, 20, 1],
    [10, 20, 2],
    [20, 45, 9],
    [200, 28, 56],
  ])(
    '1.07 N %i, threshold %i %%, %i successes: equal is not below; one failure more is',
    async (size, rate, successes) => {
      const channel = new Twin(await bench());
      const policy = policyOf({ size, rate });
      const failures = size - successes;
      expect(await channel.record('F'.repeat(failures), policy)).toMatchObject({ blocked: false, recorded: failures });
      expect(await channel.record('F', policy)).toMatchObject({ blocked: true, recorded: failures + 1 });
    },
  );

  it('is exact for every N up to 200 and every threshold of two decimals, in Lua and in TypeScript', async () => {
    const { client } = await bench();
    // The script's own window over every threshold: the fewest failures that block. Fewer failures are never worse.
    const source = `#!lua
      local channel, policy = {}, {}
      ${readFileSync('lua/lib/count-window.lua', 'utf8')}
      local size, fewest, failures = tonumber(ARGV[1]), {}, 0
      for threshold = 10000, 0, -1 do
        local w = setmetatable({ size = size }, countWindow)
        while failures <= size and not w:isFailing(failures, threshold) do failures = failures + 1 end
        fewest[10001 - threshold] = failures
      end
      return fewest`;
    const wrong: object[] = [];
    for (let size = 1; size <= 200; size += 1) {
      const lua = (await client.eval(source, 1, 'none', size)) as number[];
      for (let threshold = 0; threshold <= 10_000; threshold += 1) {
        // Exact: blocked while (size - failures) / size < threshold / 10,000.
        const fewest = Number((10_000n * BigInt(size) - BigInt(threshold) * BigInt(size)) / 10_000n) + 1;
        const at = (failures: number) => new CountWindow(size).isFailing(failures, threshold);
        // TypeScript is asked on both sides of the edge, for some thresholds and for each whole edge.
        const edge = (threshold * size) % 10_000 === 0;
        const ts = edge || threshold % 97 === 0 ? !at(fewest - 1) && (fewest > size || at(fewest)) : true;
        if (lua[10_000 - threshold] !== fewest || !ts)
          wrong.push({ size, threshold, fewest, lua: lua[10_000 - threshold], ts });
      }
    }
    expect(wrong).toEqual([]);
  });
});
