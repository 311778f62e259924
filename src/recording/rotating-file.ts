import { constants } from 'node:fs';
import { type FileHandle, open, rename, stat, unlink } from 'node:fs/promises';

export type RotatingFileOptions = {
  readonly path: string;
  /** A file never grows beyond it. */
  readonly maxBytes: number;
  /** How many are kept, the current one included: `path`, `path.1` (the one before it), … */
  readonly files: number;
};

/** Nobody but its owner reads what users' calls ended like. */
const MODE = 0o600;
const NEWLINE = 0x0a;
/** A pipe or a device in place of the file must not hold the process, nor a link lead it to another file. */
const FLAGS =
  constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/**
 * A file that is only appended to and put aside when it is full. The disk is asked for its size each time, so processes that share one
 * file by mistake do not outgrow the bound, and do not turn what another one has just begun. One call at a time.
 */
export class RotatingFile {
  readonly #options: RotatingFileOptions;
  #handle: FileHandle | undefined;
  /** What the file holds may end within a line. */
  #torn = false;

  constructor(options: RotatingFileOptions) {
    this.#options = options;
  }

  /**
   * Appends whole lines, `bytes` of them being less than `maxBytes`. After an error part of the text may stand in the file; the next
   * text begins on a line of its own.
   *
   * @throws what the disk answers, or that the path is no file of ours
   */
  async append(text: string, bytes: number): Promise<void> {
    const handle = await this.#ready(bytes + 1);
    const begin = this.#torn ? '\n' : '';
    this.#torn = true;
    await handle.appendFile(begin + text);
    this.#torn = false;
  }

  async close(): Promise<void> {
    const handle = this.#handle;
    this.#handle = undefined;
    await handle?.close();
  }

  /** A file with room for so much more. */
  async #ready(bytes: number): Promise<FileHandle> {
    const { path, maxBytes } = this.#options;
    for (;;) {
      this.#handle ??= await this.#open(path);
      const { size, nlink, ino } = await this.#handle.stat();
      if (nlink > 0 && (size === 0 || size + bytes <= maxBytes)) return this.#handle;
      const isCurrent = await stat(path).then(
        (found) => found.ino === ino,
        () => false,
      );
      await this.close();
      if (isCurrent) await this.#turn();
    }
  }

  /** A process that was killed may have left half a line. */
  async #open(path: string): Promise<FileHandle> {
    const handle = await openOwn(path);
    try {
      const { size } = await handle.stat();
      const last = size === 0 ? undefined : await handle.read(Buffer.alloc(1), 0, 1, size - 1);
      this.#torn = last !== undefined && last.buffer[0] !== NEWLINE;
      return handle;
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** `path` → `path.1` → `path.2` …; the oldest goes. */
  async #turn(): Promise<void> {
    const { path, files } = this.#options;
    const name = (n: number) => (n === 0 ? path : `${path}.${n}`);
    if (files <= 1) return unlink(path).catch(unlessMissing);
    for (let n = files - 2; n >= 0; n -= 1) await rename(name(n), name(n + 1)).catch(unlessMissing);
  }
}

async function openOwn(path: string): Promise<FileHandle> {
  const handle = await open(path, FLAGS, MODE);
  try {
    const found = await handle.stat();
    if (!found.isFile()) throw new Error(`${path} is not a regular file`);
    if ((found.mode & 0o077) !== 0) await handle.chmod(MODE);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

function unlessMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error;
}
