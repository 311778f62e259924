// Sees to it that a server started for tests, the demo or a benchmark never outlives whoever started it, not even after a kill -9.

import { spawn } from 'node:child_process';

/**
 * A shell that waits for the end of its input, which comes when this process ends, even by SIGKILL, and then ends the server.
 *
 * @param {number} pid of the server
 * @param {string | undefined} folder removed as well
 */
export function guardAgainstOrphan(pid, folder) {
  const script = `trap '' INT TERM HUP; read -r _; kill -9 "$1" 2>/dev/null; if [ -n "$2" ]; then sleep 0.2; rm -rf "$2"; fi`;
  const guard = spawn('/bin/sh', ['-c', script, 'sh', `${pid}`, folder ?? ''], { stdio: ['pipe', 'ignore', 'ignore'] });
  guard.on('error', () => {});
  guard.unref();
  /** @type {import('node:net').Socket} */ (guard.stdin).unref();
  return guard;
}
