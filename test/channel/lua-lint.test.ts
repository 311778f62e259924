import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { loadScript } from '../../src/redis/script.js';

const scripts = readdirSync('lua').filter((file) => file.endsWith('.lua'));

/** Where a script’s call names a key by something else than `KEYS[i]`, or a local that is nothing but one. */
function foreignKeys(source: string): string[] {
  const code = source.replace(/--.*$/gm, '');
  const aliases = new Set([...code.matchAll(/^\s*local (\w+) = KEYS\[\d+\]\s*$/gm)].map(([, name]) => name!));
  // A function may take a key as its parameter, if whoever calls it hands over KEYS[i] alone.
  for (const [, name, parameter] of code.matchAll(/local function (\w+)\((\w+)/g)) {
    const calls = [...code.matchAll(new RegExp(`(?<!function )\\b${name}\\(([^,)]+)`, 'g'))].map(([, first]) => first!);
    if (calls.length > 0 && calls.every((first) => /^KEYS\[\d+\]$/.test(first))) aliases.add(parameter!);
  }
  const isKey = (text: string | undefined) => text !== undefined && (/^KEYS\[\d+\]$/.test(text) || aliases.has(text));
  // The arguments up to the call's own bracket, brackets within them included.
  return [...code.matchAll(/redis\.p?call\(((?:[^()]|\([^()]*\))*)\)/g)].flatMap(([, text]) => {
    const [command = '', ...args] = text!.split(',').map((arg) => arg.trim());
    if (command === "'TIME'") return [];
    const keys = /^'(EXISTS|DEL)'$/.test(command) ? args : [args[/^'(XINFO|XGROUP)'$/.test(command) ? 1 : 0]];
    return /^'[A-Z]+'$/.test(command) && keys.every(isKey) ? [] : [text!];
  });
}

describe('every script', () => {
  it('7.10 is looked at: the rule finds computed, global and undeclared keys', () => {
    for (const bad of [
      "redis.call('GET', 'fuseline:config')",
      "redis.call('GET', KEYS[1] .. ':x')",
      "redis.call('DEL', KEYS[1], ARGV[1])",
      'redis.call(command, KEYS[1])',
      "local key = KEYS[1] .. ARGV[1]\nredis.call('GET', key)",
    ])
      expect(foreignKeys(bad), bad).not.toEqual([]);
    expect(foreignKeys("redis.call('DEL', KEYS[1], KEYS[7])")).toEqual([]);
  });

  it.each(scripts)('7.10 %s touches no key but those that its caller declares', (file) => {
    const { source } = loadScript(file.replace('.lua', ''));
    expect(source.startsWith('#!lua\n')).toBe(true);
    expect(foreignKeys(source)).toEqual([]);
  });

  it.each(scripts)('%s takes the time from Redis, and names no other function of chance or clock', (file) => {
    const { source } = loadScript(file.replace('.lua', ''));
    expect(source).not.toMatch(/os\.(time|clock|date)|math\.random/);
    const declared = /-- KEYS/.test(readFileSync(`lua/${file}`, 'utf8'));
    expect(declared).toBe(true);
  });
});
