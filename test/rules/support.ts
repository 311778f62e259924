import { onTestFinished } from 'vitest';
import { closeRedis, openRedis, type RedisClient, whenReady } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import { createLiveRules, type LiveRulesOptions, type PolledRules } from '../../src/rules/live.js';
import type { RulesLogger } from '../../src/rules/port.js';
import { sharedRedisUrl, uniquePrefix } from '../support/redis.js';

/** A client of the test's own, closed when the test is over. */
export async function openStore(
  url = sharedRedisUrl(),
  keys = new Keys(uniquePrefix()),
): Promise<{ client: RedisClient; keys: Keys }> {
  const client = openRedis(url, 'commands');
  onTestFinished(() => closeRedis(client));
  await whenReady(client);
  return { client, keys };
}

export type LogLine = { level: keyof RulesLogger; message: string; facts: object };

/** A logger that remembers. */
export function recordingLogger(): RulesLogger & { lines: LogLine[]; of(level: LogLine['level']): string[] } {
  const lines: LogLine[] = [];
  const at = (level: LogLine['level']) => (facts: object, message: string) =>
    void lines.push({ level, message, facts });
  return {
    lines,
    of: (level) => lines.filter((line) => line.level === level).map(({ message }) => message),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
  };
}

/** Live rules, closed when the test is over. */
export async function follow(options: LiveRulesOptions): Promise<PolledRules> {
  const rules = await createLiveRules(options);
  onTestFinished(() => rules.close());
  return rules;
}
