import type { Command } from 'commander';
import { AGO_MAX_MS, type Outcome, parseOutcome } from '../domain/outcome.js';
import { recordedLine } from '../recording/line.js';
import { readLines } from '../recording/lines.js';
import { Recorder } from '../recording/recorder.js';
import type { Settings } from '../settings/definitions.js';
import type { QueuedOutcome } from '../transport/port.js';
import { durationArgument } from './arguments.js';
import { CliError, reasonOf, usage } from './failure.js';
import { withLogWriter } from './log-writer.js';
import { note, print } from './output.js';
import { type SendCounts, Sender, showRanges } from './sender.js';
import { settingsOf } from './settings.js';

type Flags = {
  channel?: string;
  success?: boolean;
  failure?: boolean;
  code?: string;
  duration?: string;
  retryAfter?: string;
  source?: string;
  at?: string;
  record?: string;
};

const PROGRESS_EVERY_MS = 1_000;

/** `fuseline publish` */
export function addPublish(program: Command): void {
  program
    .command('publish')
    .summary('put outcomes of calls into the log')
    .description(
      `Publishes one outcome given by flags, or one per line of standard input (NDJSON):

  fuseline publish --channel ALIPAY --failure --code TIMEOUT --duration 3s
  echo '{"channel":"ALIPAY","success":false}' | fuseline publish

--record keeps what was sent, in a file for fuseline replay: bounded by FUSELINE_RECORD_FILE_MAX_BYTES and FUSELINE_RECORD_FILES. The time of each is that of this machine; workers record the log's own (FUSELINE_RECORD_FILE).

What cannot be read is told with its line number and left out. Exit code 1 if anything was left out or could not be sent.`,
    )
    .option('--channel <name>', 'the channel that was called')
    .option('--success', 'the call did what it was made for')
    .option('--failure', 'it did not')
    .option('--code <code>', 'error code, as rules name it under ignore')
    .option('--duration <duration>', 'how long the call took, such as 120ms or 3s')
    .option('--retry-after <duration>', 'how long the third party asked to wait, such as 30s')
    .option('--source <text>', 'host and service that made the call')
    .option('--at <time>', 'when; shown to people, never judged')
    .option('--record <file>', 'keep what was sent, one JSON a line, for fuseline replay')
    .action(async ({ record, ...flags }: Flags, command: Command) => {
      const single = fromFlags(flags);
      if (single === undefined && process.stdin.isTTY)
        usage('publish needs --channel and --success or --failure, or outcomes on standard input, one JSON per line');
      await publish(settingsOf(command), single, record);
    });
}

async function publish(settings: Settings, single: Outcome | undefined, record?: string): Promise<void> {
  const stop = new AbortController();
  const onSignal = (name: NodeJS.Signals) => {
    if (stop.signal.aborted) process.exit(name === 'SIGINT' ? 130 : 143);
    stop.abort(name);
  };
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  try {
    await withLogWriter(settings, async (writer) => {
      const kept = record === undefined ? undefined : keepSent(record, settings);
      const tell = (sentence: string) => note(`fuseline: ${sentence}`);
      const sender = new Sender(writer, stop.signal, tell, kept?.onSent);
      if (single === undefined) await fromStandardInput(sender, stop.signal);
      else await sender.add(single, 1);
      await sender.flush();
      const notKept = await kept?.end();
      finish(sender.counts(), stop.signal, settings.transport === 'kafka' ? 'Kafka' : 'Redis', notKept);
    });
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  }
}

async function fromStandardInput(sender: Sender, signal: AbortSignal): Promise<void> {
  const progress = showProgress(() => sender.counts());
  try {
    for await (const lines of readLines(process.stdin, signal)) {
      for (const line of lines) {
        if (sender.gaveUp || signal.aborted) return;
        const parsed = line.text === undefined ? { ok: false as const, reason: line.fault } : parseLine(line.text);
        if (parsed === undefined) continue;
        if (parsed.ok) await sender.add(parsed.outcome, line.number);
        else {
          sender.skip(line.number);
          note(`line ${line.number}: ${parsed.reason}`);
        }
      }
    }
  } finally {
    progress.end();
  }
}

/** `undefined`: an empty line. */
function parseLine(text: string): ReturnType<typeof parseOutcome> | undefined {
  if (text.trim() === '') return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { ok: false, reason: `not JSON: ${(error as Error).message.slice(0, 120)}` };
  }
  return parseOutcome(value);
}

function fromFlags(flags: Flags): Outcome | undefined {
  if (Object.values(flags).every((flag) => flag === undefined)) return undefined;
  const { channel, success, failure, code, duration, retryAfter, source, at } = flags;
  if (channel === undefined) usage('publish needs --channel <name> beside the other flags');
  if (success === failure) usage('publish needs one of --success and --failure');
  const parsed = parseOutcome({
    channel,
    success: success === true,
    ...(code === undefined ? {} : { code }),
    ...(duration === undefined ? {} : { durationMs: durationArgument('--duration', duration) }),
    ...(retryAfter === undefined ? {} : { retryAfterMs: durationArgument('--retry-after', retryAfter) }),
    ...(source === undefined ? {} : { source }),
    ...(at === undefined ? {} : { at }),
  });
  if (!parsed.ok) usage(parsed.reason);
  return parsed.outcome;
}

/** @throws {CliError} something was left out, was not sent, or may not have been */
function finish(counts: SendCounts, signal: AbortSignal, log: string, notKept?: string): void {
  const { sent, invalid, unsent, unknown, unknownIn, error } = counts;
  print(sentence(counts));
  const problems = [
    invalid.length > 0 ? `${invalid.length} invalid (${showRanges(invalid)})` : '',
    unsent.length > 0 ? `${unsent.length} not sent (${showRanges(unsent)})` : '',
    unknown > 0 ? `${unknown} without an answer, perhaps sent (among ${showRanges(unknownIn)})` : '',
    signal.aborted ? `interrupted by ${signal.reason}: what came after was not read` : '',
    unsent.length > 0 && !signal.aborted ? 'what came after was not read' : '',
    error === undefined ? '' : `${log}: ${error}`,
    notKept ?? '',
  ].filter(Boolean);
  if (problems.length > 0) throw new CliError(`${sent} sent, but ${problems.join('; ')}`);
}

function sentence({ sent, invalid, unsent, unknown }: SendCounts): string {
  return `sent ${sent}, invalid ${invalid.length}, unsent ${unsent.length}, unknown ${unknown}`;
}

/** Keeps what was sent. `end` says what could not be kept; sending goes on without it. */
function keepSent(path: string, { recordFileMaxBytes: maxBytes, recordFiles: files }: Settings) {
  let dropped = 0;
  let reason = '';
  const recorder = new Recorder({
    ...{ path, maxBytes, files },
    onDropped: (lines) => {
      dropped += lines;
    },
    onTrouble: (error, first) => {
      reason = reasonOf(error);
      if (first) note(`fuseline: ${path} cannot be written: ${reason}`);
    },
  });
  return {
    async onSent(outcomes: readonly QueuedOutcome[]): Promise<void> {
      const [now, at] = [performance.now(), Date.now()];
      for (const { outcome, queuedAt } of outcomes) {
        const agoMs = Math.min(AGO_MAX_MS, Math.max(0, Math.round(now - queuedAt)));
        recorder.add(recordedLine({ ...outcome, agoMs }, at));
      }
      await recorder.flush();
    },
    async end(): Promise<string | undefined> {
      await recorder.close();
      return dropped === 0 ? undefined : `${dropped} not recorded in ${path}${reason === '' ? '' : `: ${reason}`}`;
    },
  };
}

/** One line that changes on a terminal, and one a second elsewhere. */
function showProgress(counts: () => SendCounts): { end(): void } {
  const { isTTY } = process.stderr;
  const tell = () => {
    const line = sentence(counts());
    if (isTTY) process.stderr.write(`\r\u001b[K${line}`);
    else note(line);
  };
  const timer = setInterval(tell, isTTY ? PROGRESS_EVERY_MS / 5 : PROGRESS_EVERY_MS).unref();
  return {
    end() {
      clearInterval(timer);
      if (isTTY) process.stderr.write('\r\u001b[K');
    },
  };
}
