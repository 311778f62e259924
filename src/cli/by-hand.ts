import type { Command } from 'commander';
import type { Overridden } from '../channel/override.js';
import { show } from '../domain/channel-name.js';
import { channelArgument, defaultActor, durationArgument, textArgument } from './arguments.js';
import { CliError } from './failure.js';
import { localTime, print, roughly } from './output.js';
import { settingsOf } from './settings.js';

type Flags = { for?: string; reason?: string; actor?: string };

/** `fuseline block` and `fuseline unblock` */
export function addByHand(program: Command): void {
  program
    .command('block')
    .summary('keep a channel out, by hand')
    .description(
      'Keeps a channel out at once, in every process, and tells people. A channel that is blocked already gets the new end.',
    )
    .argument('<channel>', 'name of the channel')
    .option('--for <duration>', 'how long, such as 30m or 2h, or "forever"; default: as long as its policy says')
    .option('--reason <text>', 'why; people see it')
    .option('--actor <name>', 'who; default: user@host')
    .action(async (name: string, flags: Flags, command: Command) => {
      const forMs = flags.for === undefined ? 0 : flags.for === 'forever' ? -1 : durationArgument('--for', flags.for);
      const { channel, result } = await change(command, 'block', name, forMs, flags);
      if (!result.blocked) throw new CliError(`Redis took the command, yet ${show(channel)} is not blocked`);
      print(`${channel} is blocked ${until(result)}`);
    });

  program
    .command('unblock')
    .summary('bring a channel back, by hand')
    .description('Ends a block at once, in every process, and tells people. Judging resumes on an empty window.')
    .argument('<channel>', 'name of the channel')
    .option('--for <duration>', 'also do not judge it for so long, such as 10m: nothing blocks it meanwhile')
    .option('--reason <text>', 'why; people see it')
    .option('--actor <name>', 'who; default: user@host')
    .action(async (name: string, flags: Flags, command: Command) => {
      const forMs = flags.for === undefined ? 0 : durationArgument('--for', flags.for);
      const { channel, result } = await change(command, 'unblock', name, forMs, flags);
      if (result.blocked) throw new CliError(`Redis took the command, yet ${show(channel)} is still blocked`);
      const held = forMs > 0 ? `, and is not judged for ${roughly(forMs)}` : '';
      const ended = result.outbox.slice(result.outbox.length - result.pushed).map(({ kind }) => kind);
      if (ended.some((kind) => kind === 'recovered' || kind === 'resumed')) print(`${channel} is unblocked${held}`);
      else if (ended.includes('force-ended')) print(`${channel} was not blocked, and is judged again`);
      else print(`${channel} was not blocked${held}`);
    });
}

async function change(
  command: Command,
  action: 'block' | 'unblock',
  name: string,
  forMs: number,
  flags: Flags,
): Promise<{ channel: string; result: Overridden }> {
  const channel = channelArgument(name);
  const actor = flags.actor === undefined ? defaultActor() : textArgument('--actor', flags.actor);
  const note = flags.reason === undefined ? '' : textArgument('--reason', flags.reason);
  const settings = settingsOf(command);
  // Loaded here, because the queues are heavy: commands that only look start sooner without.
  const { changeByHand } = await import('./change-by-hand.js');
  return { channel, result: await changeByHand(settings, channel, { action, forMs, actor, note }) };
}

function until({ until, nowMs }: Overridden): string {
  return until === -1 ? 'without end' : `until ${localTime(until)} (${roughly(until - nowMs + 500)})`;
}
