import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { callsToBlock, DROPPED, falseBlocks, measured, STEADY, traffic } from '../../bench/judgement.mjs';
import type { Policy } from '../../src/domain/policy.js';
import { type Figures, PRESET_NAMES, presetOf } from '../../src/domain/presets.js';
import { parseRulesValue } from '../../src/domain/rules.js';
import { parseRules } from '../../src/rules/parse.js';
import { checkout } from '../support/files.js';

const page = readFileSync(`${checkout}docs/judging.md`, 'utf8');

function policyFor(document: object, channel = 'A'): Policy {
  const parsed = parseRulesValue({ mode: 'on', ...document });
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems));
  expect(parsed.warnings).toEqual([]);
  return parsed.rules.policyFor(channel);
}

describe('a preset', () => {
  it('is there for each kind of channel', () => {
    expect(PRESET_NAMES).toEqual(['core', 'secondary', 'noncritical', 'payments', 'sms', 'llm', 'login']);
    expect(presetOf('constructor')).toBeUndefined();
  });

  it.each(PRESET_NAMES)('%s can be used without being written, means what its rule says, and has no mode', (name) => {
    const { rule, why } = presetOf(name)!;
    const used = policyFor({ channels: { A: { policy: name } } });
    expect(used).toEqual(policyFor({ policies: { mine: rule }, channels: { A: { policy: 'mine' } } }));
    expect(used).not.toEqual(policyFor({}));
    expect(policyFor({ mode: 'observe', channels: { A: { policy: name } } }).mode).toBe('observe');
    expect(why.length).toBeGreaterThan(40);
  });

  it('lies above the defaults and below the keys of the channel, and a policy of the document takes its place', () => {
    const channels = { A: { policy: 'secondary', window: 7 }, B: { policy: 'sms' } };
    const document = { defaults: { successRate: 10, hold: '1m' }, policies: { sms: { window: 3 } }, channels };
    expect(policyFor(document)).toMatchObject({
      ...{ window: { kind: 'count', size: 7 }, successRate: 6_000, holdMs: 60_000 },
      block: { forMs: 300_000, growth: 2, maxMs: 3_600_000 },
    });
    expect(policyFor(document, 'B')).toMatchObject({
      window: { kind: 'count', size: 3 },
      successRate: 1_000,
      ignore: [],
    });
    expect(policyFor(document, 'B').maxConsecutiveFailures).toBeUndefined();
  });

  it('that does not exist is refused, with those that do', () => {
    for (const policy of ['paymnets', 'constructor', '__proto__', 'toString'])
      expect(parseRulesValue({ policies: { p: {} }, channels: { A: { policy } } })).toMatchObject({
        ok: false,
        problems: [
          {
            path: 'channels.A.policy',
            message: `policy must be one of those under policies or a preset (core, secondary, noncritical, payments, sms, llm, login), got "${policy}"`,
          },
        ],
      });
  });

  it('that does not go with a key of the channel is refused as a whole', () => {
    expect(parseRulesValue({ channels: { A: { policy: 'secondary', maxFailures: 5 } } })).toMatchObject({
      ok: false,
      problems: [{ path: 'channels.A', message: expect.stringContaining('maxFailures 5 does not go with') }],
    });
  });
});

/** `| core | 10 a second | 0 | 0 | 1 | 10 | 76 |` */
const rows = page.split('\n').flatMap((line) => {
  const cells = line
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim());
  const numbers = cells.slice(2).map((cell) => Number(cell.replaceAll(',', '')));
  return cells.length === 7 && numbers.every((n) => !Number.isNaN(n))
    ? [{ name: cells[0], calls: cells[1], blocks: numbers.slice(0, 3), toBlock: numbers.slice(3) }]
    : [];
});
type Measured = { name: string; policy: Policy; callsPerSecond: number; figures?: Figures };

describe('the figures of docs/judging.md', () => {
  const all: Measured[] = measured();

  it('are there for every preset, as the code has them, and for the rules that they are compared with', () => {
    expect(rows.map(({ name, calls }) => [name, calls])).toEqual(
      all.map(({ name, callsPerSecond }) => [name, traffic(callsPerSecond)]),
    );
    for (const { name, figures } of all) {
      const row = rows.find((each) => each.name === name)!;
      if (figures) expect([row.blocks, row.toBlock]).toEqual([figures.falseBlocks, figures.callsToBlock]);
    }
  });

  it.each(all)('are what a shorter simulation with other seeds gives of $name', ({ name, policy, callsPerSecond }) => {
    const row = rows.find((each) => each.name === name)!;
    const calls = 100_000;
    for (const [i, successes] of STEADY.entries()) {
      const told = row.blocks[i]! / 1e6;
      const found = falseBlocks(policy, { callsPerSecond, successes, calls, seed: 1_000 + i }) / 1e6;
      // Blocks come about as a Poisson process does; half a block in a million is what a 0 may hide.
      const error = Math.sqrt(Math.max(told, 5e-7) * (1 / calls + 1 / 1e6));
      expect(Math.abs(found - told), `at ${successes}: ${found} a call`).toBeLessThanOrEqual(4 * error + 1 / calls);
    }
    for (const [i, successes] of DROPPED.entries()) {
      const told = row.toBlock[i]!;
      const found = callsToBlock(policy, { callsPerSecond, successes, drops: 1_000, seed: 2_000 + i })!;
      // The median of what is spread as widely as an exponential is known to 6.5 % from a thousand drops against a thousand others.
      expect(Math.abs(found - told), `to ${successes}: ${found}`).toBeLessThanOrEqual(Math.max(1, 0.26 * told));
    }
  });
});

describe('docs/judging.md', () => {
  const examples = [...page.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].map(([, code]) => code!);

  it('holds examples that are valid rules', () => {
    expect(examples.length).toBeGreaterThan(4);
    for (const code of examples) {
      const parsed = parseRules(code);
      expect(parsed.ok ? [] : parsed.problems, code).toEqual([]);
    }
  });

  it('tells of every preset what for and why', () => {
    for (const name of PRESET_NAMES)
      expect(page).toMatch(new RegExp(`^\\| \`${name}\` \\| .{10,} \\| .{10,} \\|`, 'm'));
  });
});
