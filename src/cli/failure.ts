/**
 * Ends the command with a message for the person who typed it.
 *
 * `exitCode` 2: the command line is wrong, nothing was tried. 1: it was tried and failed.
 */
export class CliError extends Error {
  override readonly name = 'CliError';
  readonly exitCode: 1 | 2;
  constructor(message: string, exitCode: 1 | 2 = 1, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

/** @throws {CliError} with exit code 2 */
export function usage(message: string): never {
  throw new CliError(message, 2);
}

/** The reason alone: an error of ioredis also carries the command with its arguments. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}
