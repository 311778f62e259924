import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { show } from '../domain/channel-name.js';
import { DURATION_RULE, parseDuration } from '../domain/duration.js';
import { ALWAYS, CannotRead, newReading, type Reading, type TimeRange } from '../replay/past.js';
import type { ReplayMode } from '../replay/replay.js';
import { type ReplayReport, type RuleSet, replay } from '../replay/report.js';
import { readFiles } from '../replay/source-file.js';
import { parseRules } from '../rules/parse.js';
import { CliError, usage } from './failure.js';
import { note, print, printJson } from './output.js';
import { showProgress } from './progress.js';
import { withLog } from './replay-log.js';
import { replayText } from './replay-text.js';
import { settingsOf } from './settings.js';

type Flags = { against?: string; log?: boolean; from?: string; to?: string; mode: string; json?: boolean };

/** `fuseline replay` */
export function addReplay(program: Command): void {
  program
    .command('replay')
    .summary('what rules would have blocked, had they been in force')
    .description(
      `Judges outcomes of the past by a file of rules, as workers would have: incidents, a timeline per channel, what became of the outcomes, and how many failures would not have reached users.

  fuseline replay rules.yaml outcomes.ndjson
  fuseline replay rules.yaml outcomes.ndjson.1 outcomes.ndjson
  tail -n 100000 outcomes.ndjson | fuseline replay rules.yaml -
  fuseline replay rules.yaml --against stricter.yaml outcomes.ndjson
  fuseline replay rules.yaml --log --from 2h

Several files are merged by time, files that end with .gz are unpacked; --log takes what the log still holds, and leaves it as it is.

A line is one outcome as JSON, as workers keep them (FUSELINE_RECORD_FILE) and fuseline publish --record. Its time is arrivalMs, else at; without both it is bad. Bad lines are counted, and the first ones named. Workers cut a Redis stream behind them (FUSELINE_REWIND), so --log reaches back as far as recordings do only on Kafka.

Every channel is judged as if its mode were on: the question is what the rules would have blocked. --mode as-written takes observe and off as they are. Windows begin empty, also with --from. Exit code 1 only if no outcome could be read.`,
    )
    .argument('<rules>', 'YAML or JSON')
    .argument('[outcomes...]', 'recordings; - for standard input')
    .option('--against <rules>', 'a second set of rules, shown beside the first, with the incidents that differ')
    .option('--log', 'read the outcome log that the settings name; nothing in it is taken, moved or committed')
    .option('--from <time>', 'only what arrived since: 2026-11-29T10:00 (of this machine), …Z, or 2h for two hours ago')
    .option('--to <time>', 'only what arrived before')
    .option('--mode <mode>', 'on or as-written', 'on')
    .option('--json', 'for programs: one JSON document, times and lengths in ms')
    .action(async (rules: string, outcomes: string[], flags: Flags, command: Command) => {
      await run(rules, outcomes, flags, command);
    });
}

async function run(rules: string, paths: readonly string[], flags: Flags, command: Command): Promise<void> {
  const { mode } = flags;
  if (mode !== 'on' && mode !== 'as-written') usage(`--mode must be on or as-written, got ${show(mode)}`);
  if ((paths.length === 0) === (flags.log !== true))
    usage('replay needs files of outcomes (- for standard input) or --log, one of them');
  if (paths.filter((path) => path === '-').length > 1) usage('standard input (-) can be read once only');
  const range = rangeOf(flags);
  const settings = settingsOf(command);
  const ruleSets = await Promise.all([rules, ...(flags.against === undefined ? [] : [flags.against])].map(readRules));
  const reading = newReading();
  const common = {
    ruleSets,
    mode: mode as ReplayMode,
    freshForMs: settings.freshFor,
    maxChannels: settings.maxChannels,
  };
  const progress = showProgress(() => ({ ...reading.progress(), read: reading.read }));
  let report: ReplayReport;
  try {
    report = flags.log
      ? await withLog(settings, range, reading, (entries) => replay({ ...common, entries, reading }))
      : await replay({ ...common, entries: await readFiles(paths, { range, reading, input: process.stdin }), reading });
  } catch (error) {
    if (error instanceof CannotRead) throw new CliError(error.message, 1, { cause: error });
    throw error;
  } finally {
    progress.end();
  }
  finish(report, reading, flags.json === true);
}

/** @throws {CliError} nothing could be read */
function finish(report: ReplayReport, { read, bad, firstBad, outOfRange, endsEarly }: Reading, json: boolean): void {
  for (const { where, reason } of firstBad) note(`${where}: ${reason}`);
  if (bad > firstBad.length) note(`and ${bad - firstBad.length} more that could not be read`);
  for (const reason of endsEarly) note(`fuseline: warning: not read to its end: ${reason}`);
  if (report.outcomes === 0) {
    const outside = outOfRange > 0 ? `, ${outOfRange} lie outside the time asked for` : '';
    throw new CliError(`nothing to replay: ${read} read, ${bad} of them bad${outside}`);
  }
  if (json) printJson(report);
  else print(replayText(report));
}

async function readRules(path: string): Promise<RuleSet> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw new CliError(`${path} cannot be read (${(error as NodeJS.ErrnoException).code ?? String(error)})`);
  }
  const parsed = parseRules(text);
  if (parsed.ok) return { name: path, rules: parsed.rules };
  const lines = parsed.problems.map(
    ({ path: item, message }) => `${path}: ${item === '' ? message : `${item}: ${message}`}`,
  );
  throw new CliError(lines.join('\n'));
}

function rangeOf({ from, to }: Flags): TimeRange {
  const fromMs = from === undefined ? ALWAYS.fromMs : timeArgument('--from', from);
  const toMs = to === undefined ? ALWAYS.toMs : timeArgument('--to', to);
  if (fromMs >= toMs) usage(`--from must lie before --to, got ${show(from)} and ${show(to)}`);
  return { fromMs, toMs };
}

/** A moment, ms: how long ago, a time, or ms since 1970. @throws {CliError} */
function timeArgument(flag: string, text: string): number {
  const agoMs = parseDuration(text);
  if (agoMs !== undefined) return Date.now() - agoMs;
  // A date alone would be taken for midnight in Greenwich, a date with a time for one of here.
  const ms = /^\d{12,14}$/.test(text)
    ? Number(text)
    : Date.parse(/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00` : text);
  if (Number.isNaN(ms))
    usage(`${flag} must be a time such as 2026-11-29T10:00, or ${DURATION_RULE}, ago; got ${show(text)}`);
  return ms;
}
