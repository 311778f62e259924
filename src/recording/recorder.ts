import { withDeadline } from '../redis/deadline.js';
import { RotatingFile, type RotatingFileOptions } from './rotating-file.js';

/** What a recorder tells; each is called at once and must not throw. */
export type RecorderEvents = {
  /** So many lines are in the file. */
  readonly onWritten?: (lines: number) => void;
  /** So many lines will never be: the disk was too slow, or refused them. */
  readonly onDropped?: (lines: number) => void;
  /** The disk refused. Told for each refusal; `first` for the one after a time of success. */
  readonly onTrouble?: (error: Error, first: boolean) => void;
  /** The disk takes lines again. */
  readonly onCured?: () => void;
};

/** Lines that wait for the disk, in characters. Beyond it they are dropped, never waited for. */
const WAITING_MOST = 16 * 1024 * 1024;
const WRITE_AFTER_MS = 100;
const AGAIN_AFTER_MS = 5_000;
const CLOSE_WITHIN_MS = 2_000;
/** Written at once, if a file may hold twice as much. */
const PIECE_BYTES = 1024 * 1024;

/**
 * Keeps lines in a file beside something that must not wait for it: `add` returns at once, whatever the disk does. What it cannot keep
 * is dropped and counted; the order of what is kept holds.
 */
export class Recorder {
  readonly #file: RotatingFile;
  readonly #events: RecorderEvents;
  readonly #pieceBytes: number;
  #waiting: string[] = [];
  #waitingLength = 0;
  #writing: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #failing = false;

  constructor(options: RotatingFileOptions & RecorderEvents) {
    this.#file = new RotatingFile(options);
    this.#events = options;
    this.#pieceBytes = Math.min(PIECE_BYTES, Math.floor(options.maxBytes / 2));
  }

  /** So much waits already that lines would be dropped: making them is not worth the while. */
  get isFull(): boolean {
    return this.#waitingLength >= WAITING_MOST;
  }

  /** @param line its end included, shorter than half of what a file may hold */
  add(line: string): void {
    if (this.isFull) {
      this.drop(1);
      return;
    }
    this.#waiting.push(line);
    this.#waitingLength += line.length;
    this.#writeIn(WRITE_AFTER_MS);
  }

  /** Counts lines that were not even made. */
  drop(lines: number): void {
    if (lines > 0) this.#events.onDropped?.(lines);
  }

  /** Resolves when everything added before was written, or was dropped because the disk refused it. Never rejects. */
  async flush(): Promise<void> {
    while (this.#writing !== undefined || this.#waiting.length > 0) await this.#begin();
  }

  /** Writes what waits and closes the file; a disk that hangs is not waited for longer than 2 s. Never rejects. */
  async close(): Promise<void> {
    const end = async () => {
      await this.flush();
      await this.#file.close();
    };
    await withDeadline(end(), CLOSE_WITHIN_MS, 'the end of the recording').catch(() =>
      this.drop(this.#waiting.splice(0).length),
    );
  }

  #writeIn(ms: number): void {
    if (this.#timer !== undefined || this.#writing !== undefined) return;
    this.#timer = setTimeout(() => void this.#begin(), ms).unref();
  }

  /** Never two at once: the file would hold them in any order. */
  #begin(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined;
      if (this.#waiting.length > 0) this.#writeIn(this.#failing ? AGAIN_AFTER_MS : 0);
    });
    return this.#writing;
  }

  /** One turn: all that waits now, in pieces. Never rejects. */
  async #write(): Promise<void> {
    const lines = this.#waiting;
    this.#waiting = [];
    let from = 0;
    try {
      while (from < lines.length) {
        const { text, bytes, to } = pieceOf(lines, from, this.#pieceBytes);
        await this.#file.append(text, bytes);
        this.#waitingLength -= text.length;
        this.#events.onWritten?.(to - from);
        from = to;
        if (this.#failing) this.#events.onCured?.();
        this.#failing = false;
      }
    } catch (error) {
      // A piece that was refused may stand in the file in part: written again, its lines would be there twice.
      this.drop(lines.length - from);
      for (const line of lines.slice(from)) this.#waitingLength -= line.length;
      this.#events.onTrouble?.(error as Error, !this.#failing);
      this.#failing = true;
      await this.#file.close().catch(() => {});
    }
  }
}

function pieceOf(lines: readonly string[], from: number, most: number): { text: string; bytes: number; to: number } {
  let bytes = 0;
  let to = from;
  while (to < lines.length) {
    const length = Buffer.byteLength(lines[to]!);
    if (to > from && bytes + length > most) break;
    bytes += length;
    to += 1;
  }
  return { text: lines.slice(from, to).join(''), bytes, to };
}
