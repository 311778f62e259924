import type { Command } from 'commander';
import { appendAudit } from '../channel/audit.js';
import { clearLoad, handInForce, type LoadChanged, readLoad, setLoad } from '../channel/load.js';
import { readTime } from '../channel/snapshot.js';
import { show } from '../domain/channel-name.js';
import { describePolicy } from '../domain/describe.js';
import { type Factors, LOAD_LINES, STEP_EVERY_MS, scaledPolicy } from '../domain/dynamic.js';
import { resolve } from '../domain/rules-resolve.js';
import { liveWorkers, workersLoad } from '../intake/last-minute.js';
import type { RedisClient } from '../redis/client.js';
import { Keys } from '../redis/keys.js';
import { defaultActor, durationArgument, textArgument } from './arguments.js';
import { usage } from './failure.js';
import { factorWords, handWords, windowWords } from './load-words.js';
import { note, print, printJson, roughly, table } from './output.js';
import { answered, withConnections } from './redis.js';
import { type RulesInForce, rulesInForce } from './rules-in-force.js';
import { settingsOf } from './settings.js';

type Hand = { actor?: string; reason?: string; for?: string };

/** `fuseline load`, `load set` and `load clear` */
export function addLoad(program: Command): void {
  const load = program
    .command('load')
    .summary('how busy the workers are, and how patient that makes the judging')
    .description(
      `Shows the load and what it makes of policies with "dynamic: true". Above ${LOAD_LINES.high} windows and the tolerated share of failures grow by one step a minute, below ${LOAD_LINES.low} they go back, never under what the rules say. The load is the mean utilisation of the outcome workers' event loops, unless somebody has set it. Reads only.`,
    )
    .option('--json', 'for programs: one JSON document, times in ms of Redis')
    .action(async ({ json }: { json?: boolean }, command: Command) => {
      const state = await atRedis(command, read);
      if (state.refused !== undefined)
        note(`fuseline: warning: the rules are refused (${state.refused}), workers live by the last good ones`);
      if (json) printJson(state);
      else print(asText(state));
    });

  load
    .command('set')
    .summary('say what the load is')
    .description(
      'Puts a number in the place of what the workers measure. The next step, a minute after the last, goes by it.',
    )
    .argument('<load>', 'from 0 (idle) to 1, such as 0.8')
    .option('--for <duration>', 'how long, such as 10m; default: until it is cleared')
    .option('--reason <text>', 'why; it is kept in the audit trail')
    .option('--actor <name>', 'who; default: user@host')
    .action(async (text: string, flags: Hand, command: Command) => {
      const value = loadArgument(text);
      const forMs = flags.for === undefined ? -1 : durationArgument('--for', flags.for);
      const by = whoAndWhy(flags);
      await atRedis(command, async ({ main, keys }) => {
        const done = await answered(setLoad(main, keys, value, forMs, by.actor), 'the load');
        await audit(main, keys, { action: 'load-set', to: String(value), until: done.until, ...by }, done);
        print(`the load is ${handWords({ load: value, until: done.until, actor: by.actor }, done.nowMs)}`);
        const { hasDynamic } = await rulesInForce(main, keys);
        if (!hasDynamic) note('fuseline: warning: no policy of the rules is dynamic: the load changes nothing');
      });
    });

  load
    .command('clear')
    .summary('leave the load to the workers again')
    .option('--reason <text>', 'why; it is kept in the audit trail')
    .option('--actor <name>', 'who; default: user@host')
    .action(async (flags: Hand, command: Command) => {
      const by = whoAndWhy(flags);
      await atRedis(command, async ({ main, keys }) => {
        const done = await answered(clearLoad(main, keys), 'that the load is cleared');
        if (done.before === undefined) return print('nobody had set the load');
        await audit(main, keys, { action: 'load-clear', ...by }, done);
        print(`the load is what the workers measure; it was set to ${done.before}`);
      });
    });
}

type Place = { readonly main: RedisClient; readonly log: RedisClient; readonly keys: Keys };

function atRedis<T>(command: Command, act: (place: Place) => Promise<T>): Promise<T> {
  const { redisUrl, logRedisUrl, prefix } = settingsOf(command);
  return withConnections(async ({ open }) => {
    const main = await open(redisUrl, 'commands');
    const log = logRedisUrl === redisUrl ? main : await open(logRedisUrl, 'commands');
    return act({ main, log, keys: new Keys(prefix) });
  });
}

/** @throws {CliError} */
function loadArgument(text: string): number {
  if (!/^(?:0|1|[01]?\.\d{1,4})$/.test(text) || Number(text) > 1)
    usage(`the load must be a number from 0 to 1 with up to four decimals, got ${show(text)}`);
  return Number(text);
}

function whoAndWhy({ actor, reason }: Hand): { actor: string; note?: string } {
  return {
    actor: actor === undefined ? defaultActor() : textArgument('--actor', actor),
    ...(reason === undefined ? {} : { note: textArgument('--reason', reason) }),
  };
}

async function audit(
  main: RedisClient,
  keys: Keys,
  entry: { action: string; actor: string; to?: string; until?: number },
  { before }: LoadChanged,
): Promise<void> {
  const written = appendAudit(main, keys, { ...entry, ...(before === undefined ? {} : { from: String(before) }) });
  await answered(written, 'the entry in the audit trail').catch((error: Error) =>
    note(`fuseline: warning: done, yet not in the audit trail: ${error.message}`),
  );
}

/** An entry of the rules that is dynamic: its window and rate as written and as they are now. */
type Row = { channel: string; window: [written: string, now: string]; successRate: [written: number, now: number] };

type State = Awaited<ReturnType<typeof read>>;

async function read({ main, log, keys }: Place) {
  const [stored, { redisMs }, workers, rules] = await Promise.all([
    answered(readLoad(main, keys), 'the load'),
    answered(readTime(main), 'the time'),
    answered(liveWorkers(log, keys), 'the list of workers'),
    rulesInForce(main, keys),
  ]);
  const nowMs = Math.floor(redisMs);
  const measured = await answered(workersLoad(main, keys, workers), 'the load of the workers');
  const hand = handInForce(stored, nowMs);
  return {
    v: 1 as const,
    nowMs,
    /** Some policy goes by the load at all. */
    dynamic: rules.hasDynamic,
    ...(rules.refused === undefined ? {} : { refused: rules.refused }),
    /** What the workers measure; `null`: none of them says. */
    measured: measured ?? null,
    workers: workers.length,
    ...(hand === undefined ? {} : { hand }),
    factors: stored.factors,
    /** When the last step was taken; 0: none was. */
    at: stored.at,
    nextStepInMs: Math.min(STEP_EVERY_MS, Math.max(0, stored.at + STEP_EVERY_MS - nowMs)),
    channels: rows(rules, stored.factors),
  };
}

/** Entries of the rules, as written there; those whom no entry covers come first. */
function rows({ document, policyFor }: RulesInForce, factors: Factors): Row[] {
  const entries = Object.keys(document.channels ?? {}).map((name) => ({ channel: name, policy: policyFor(name) }));
  return [{ channel: '(all others)', policy: resolve(document, {}) }, ...entries].flatMap(({ channel, policy }) => {
    if (!policy.isDynamic) return [];
    const now = scaledPolicy(policy, factors);
    const rates: Row['successRate'] = [describePolicy(policy).successRate, describePolicy(now).successRate];
    return [{ channel, window: [windowWords(policy), windowWords(now)] as Row['window'], successRate: rates }];
  });
}

const HEADER = ['CHANNEL', 'WINDOW', 'NOW', 'SUCCESS RATE', 'NOW'];

function asText({ nowMs, dynamic, measured, workers, hand, factors, nextStepInMs, channels }: State): string {
  const mean = measured === null ? 'unknown' : `${Number(measured.toFixed(2))}, the mean of ${workers} outcome workers`;
  const lines = [`load ${hand === undefined ? mean : handWords(hand, nowMs)}`];
  if (!dynamic) return [...lines, 'no policy of the rules is dynamic: the load changes nothing'].join('\n');
  lines.push(
    `${factorWords(factors)}; the next step can be taken ${nextStepInMs > 0 ? `in ${roughly(nextStepInMs + 999)}` : 'now'}`,
  );
  const cells = channels.map(({ channel, window, successRate }) => [channel, ...window, ...successRate.map(String)]);
  return [...lines, '', table(HEADER, cells)].join('\n');
}
