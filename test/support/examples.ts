import { mkdir, symlink } from 'node:fs/promises';

/** The examples import `fuseline` as users do; node finds a package by its own name only through node_modules. */
export async function linkExamples(): Promise<void> {
  await mkdir('examples/node_modules', { recursive: true });
  await symlink('../..', 'examples/node_modules/fuseline').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
}
