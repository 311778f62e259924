import type { Command } from 'commander';
import { show } from '../domain/channel-name.js';
import type { Factors } from '../domain/dynamic.js';
import { type Explained, explainChannel, type Origin } from '../domain/origins.js';
import { parseOutcome } from '../domain/outcome.js';
import { presetOf } from '../domain/presets.js';
import type { RulesDocument } from '../domain/rules-schema.js';
import { Keys } from '../redis/keys.js';
import { parseRules } from '../rules/parse.js';
import { channelArgument, durationArgument } from './arguments.js';
import { usage } from './failure.js';
import { dynamicWords } from './load-words.js';
import { bold, note, plain, print, printJson, table } from './output.js';
import { blockingWords, countingWords, countOne, type OneOutcome } from './policy-words.js';
import { withConnections } from './redis.js';
import { readText, refuse } from './rules-file.js';
import { rulesUnderLoad } from './rules-under-load.js';
import { settingsOf } from './settings.js';

type OutcomeFlags = { code?: string; success?: string; duration?: string; retryAfter?: string };
type Flags = OutcomeFlags & { file?: string; json?: boolean };

/** `fuseline rules explain` */
export function addExplain(rules: Command): void {
  rules
    .command('explain')
    .summary('what a channel is judged by, where each value comes from, and what blocks it')
    .description(
      `Shows the effective policy of a channel under the rules in force, or under a file: each value with the layer it comes from, what blocks in words and numbers, and what each kind of outcome counts as.

  fuseline rules explain ALIPAY
  fuseline rules explain ALIPAY --file rules.yaml
  fuseline rules explain ALIPAY --code CARD_DECLINED

The last one says what such an outcome would count as.`,
    )
    .argument('<channel>')
    .option('--file <rules>', 'YAML or JSON, instead of the rules in force; - for standard input')
    .option('--code <code>', 'of an outcome: the code of the third party')
    .option(
      '--success <true|false>',
      'of an outcome: what the caller said; default: true if it is about its duration alone',
    )
    .option('--duration <time>', 'of an outcome: how long the call took')
    .option('--retry-after <time>', 'of an outcome: how long the third party asked to wait')
    .option('--json', 'for programs')
    .action(async (name: string, { file, json, ...flags }: Flags, command: Command) => {
      const channel = channelArgument(name);
      const outcome = outcomeOf(channel, flags);
      const { document, source } = file === undefined ? await inForce(command) : await fromFile(file);
      const explained = explainChannel(document, channel);
      if (json) printJson(asJson(channel, source, explained, outcome));
      else print(asText(channel, source, explained, outcome));
    });
}

type Source = { readonly file: string } | { readonly version: number; readonly factors: Factors };
type Read = { readonly document: RulesDocument; readonly source: Source };

async function inForce(command: Command): Promise<Read> {
  const { redisUrl, prefix } = settingsOf(command);
  const rules = await withConnections(async ({ open }) =>
    rulesUnderLoad(await open(redisUrl, 'commands'), new Keys(prefix)),
  );
  if (rules.refused !== undefined)
    note(
      `fuseline: warning: the rules are refused (${rules.refused}), workers live by the last good ones: these are the defaults`,
    );
  else if (rules.empty) note('there are no rules: these are the defaults');
  return { document: rules.document, source: { version: rules.version, factors: rules.factors } };
}

async function fromFile(file: string): Promise<Read> {
  const parsed = parseRules(await readText(file));
  if (!parsed.ok) refuse(file, parsed.problems);
  return { document: parsed.rules.document, source: { file } };
}

/** The outcome that the flags describe; `undefined`: none of them was given. @throws {CliError} */
function outcomeOf(channel: string, { code, success, duration, retryAfter }: OutcomeFlags): OneOutcome | undefined {
  if ([code, success, duration, retryAfter].every((flag) => flag === undefined)) return undefined;
  if (success !== undefined && success !== 'true' && success !== 'false')
    usage(`--success must be true or false, got ${show(success)}`);
  const durationMs = duration === undefined ? undefined : durationArgument('--duration', duration);
  const retryAfterMs = retryAfter === undefined ? undefined : durationArgument('--retry-after', retryAfter);
  const said = success === undefined ? code === undefined && retryAfter === undefined : success === 'true';
  const parsed = parseOutcome({ channel, success: said, code, durationMs, retryAfterMs });
  return parsed.ok ? parsed.outcome : usage(parsed.reason);
}

function asJson(channel: string, source: Source, explained: Explained, outcome: OneOutcome | undefined): object {
  const { policy, entry, named, origins } = explained;
  const { why, figures } = presetUsed(explained) ?? {};
  return {
    channel,
    ...source,
    entry: entry ?? null,
    policy: named?.name ?? null,
    preset: figures === undefined ? null : { why, ...figures },
    effective: Object.fromEntries(origins.map(({ key, value }) => [key, value])),
    from: Object.fromEntries(origins.map(({ key, from }) => [key, from])),
    blocks: blockingWords(policy),
    counts: countingWords(policy),
    ...(outcome === undefined ? {} : { outcome: countOne(policy, outcome) }),
  };
}

function asText(channel: string, source: Source, explained: Explained, outcome: OneOutcome | undefined): string {
  const { policy, origins } = explained;
  const section = (title: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : ['', bold(title), ...lines.map((line) => `- ${plain(line)}`)];
  return [
    `${bold(plain(channel))}: ${plain(whence(source, explained))}`,
    '',
    table(
      ['KEY', 'VALUE', 'FROM'],
      origins.map(({ key, value, from }) => [key, inOneLine(value), from]),
    ),
    ...section('What blocks', blockingWords(policy)),
    ...section('What outcomes count as', countingWords(policy)),
    ...section('Under load', dynamicWords(policy, 'file' in source ? undefined : source.factors)),
    ...section('Why', presetLines(explained)),
    ...section('This outcome', outcome === undefined ? [] : outcomeLines(explained, outcome)),
  ].join('\n');
}

function whence(source: Source, { entry, named }: Explained): string {
  const where = 'file' in source ? source.file : `rules version ${source.version}`;
  if (entry === undefined) return `${where}, which does not name it, so the defaults hold`;
  return `${where}, channels.${entry}${named === undefined ? '' : `, with ${named.own ? 'the policy' : 'the preset'} ${named.name}`}`;
}

function presetUsed({ named }: Explained): ReturnType<typeof presetOf> {
  return named === undefined || named.own ? undefined : presetOf(named.name);
}

function presetLines(explained: Explained): string[] {
  const { named } = explained;
  const preset = presetUsed(explained);
  if (named?.own && presetOf(named.name) !== undefined)
    return [`the document has a policy ${named.name} of its own, which takes the place of the preset of that name`];
  if (named === undefined || preset === undefined) return [];
  const { falseBlocks, callsToBlock, callsPerSecond } = preset.figures;
  const traffic = callsPerSecond >= 1 ? `${callsPerSecond} a second` : `${Math.round(callsPerSecond * 60)} a minute`;
  return [
    preset.why,
    `as shipped, at ${traffic}: ${falseBlocks.join(' / ')} blocks per million calls where 95 / 90 / 80 % succeed; ${callsToBlock.join(' / ')} calls to the block when it drops to 0 / 50 %`,
  ];
}

function outcomeLines({ policy }: Explained, outcome: OneOutcome): string[] {
  const { counts, why } = countOne(policy, outcome);
  return [`${counts}: ${why}`];
}

function inOneLine(value: Origin['value']): string {
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.join(', ');
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.entries(value)
    .map(([key, each]) => `${key}: ${Array.isArray(each) ? `[${each.join(', ')}]` : String(each)}`)
    .join(', ');
}
