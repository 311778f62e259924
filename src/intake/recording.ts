import { parseOutcome } from '../domain/outcome.js';
import type { Log } from '../observe/log.js';
import type { Count } from '../observe/metrics.js';
import { recordedLine } from '../recording/line.js';
import { Recorder } from '../recording/recorder.js';
import type { RotatingFileOptions } from '../recording/rotating-file.js';
import type { LogBatch } from '../transport/port.js';

/** Keeps what a worker was given, for `fuseline replay`. */
export type Recording = {
  /** Takes the outcomes of a batch that was judged, in the order of the log. Returns at once, whatever the disk does. */
  keep(batch: LogBatch): void;
  /** Writes what waits; takes 2 s at most. */
  close(): Promise<void>;
};

export type RecordingOptions = RotatingFileOptions & {
  readonly logClockLeadMs: number;
  readonly log: Log;
  readonly count: Count;
};

/**
 * Opens nothing yet: a file that cannot be written is told when the first outcomes come, and is no reason to stop judging. Outcomes that
 * cannot be read are left to the dead letters.
 */
export function createRecording({ logClockLeadMs, log, count, ...file }: RecordingOptions): Recording {
  let dropped = 0;
  const recorder = new Recorder({
    ...file,
    onWritten: (lines) => count('fuseline_recorded_outcomes_total', { result: 'written' }, lines),
    onDropped: (lines) => {
      dropped += lines;
      count('fuseline_recorded_outcomes_total', { result: 'dropped' }, lines);
    },
    onTrouble: (error, first) => {
      count('fuseline_recording_errors_total');
      if (first)
        log.warn({ file: file.path, err: error }, 'outcomes cannot be recorded; judging goes on, and so does trying');
    },
    onCured: () => {
      log.info({ file: file.path, dropped }, 'outcomes are recorded again');
      dropped = 0;
    },
  });

  function keep({ partition, entries }: LogBatch): void {
    for (const { position, arrivalMs, outcomes, fault } of entries) {
      if (fault !== undefined) continue;
      if (recorder.isFull) {
        recorder.drop(outcomes.length);
        continue;
      }
      const place = { partition, position };
      for (const outcome of outcomes) {
        const parsed = parseOutcome(outcome);
        if (parsed.ok) recorder.add(recordedLine(parsed.outcome, arrivalMs - logClockLeadMs, place));
      }
    }
  }
  return { keep, close: () => recorder.close() };
}
