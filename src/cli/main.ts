#!/usr/bin/env node
import { runCommand } from './program.js';

// Whoever reads may stop reading (`fuseline status | head`): that is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(0);
});

process.exitCode = await runCommand(process.argv.slice(2));
