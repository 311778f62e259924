import { Argument, type Command } from 'commander';
import { ROLE_NAMES, type RoleName } from '../process/role-names.js';
import { sourcesOf } from './settings.js';

/** `fuseline start [role…]` */
export function addStart(program: Command): void {
  program
    .command('start')
    .summary('run the workers, all roles in one process or only those named')
    .description(
      `Runs the workers until SIGTERM, which lets them finish what is in progress; a second signal ends them at once.

  outcomes   reads outcomes from the log and judges channels
  recovery   brings channels back when their blocks end
  alerts     tells people

Logs are JSON lines on standard output. Health and metrics are served over HTTP: /healthz, /readyz, /metrics, port 9464 (--http-port).`,
    )
    .addArgument(new Argument('[role...]', 'what to run; default: all of them').choices(ROLE_NAMES))
    .action(async (roles: RoleName[], _options, command: Command) => {
      const wanted = ROLE_NAMES.filter((name) => roles.length === 0 || roles.includes(name));
      // Loaded here: the other commands need none of it, and start sooner without.
      const { main } = await import('../process/main.js');
      await main(wanted, sourcesOf(command));
    });
}
