import type { Announcer } from '../announce.js';
import { type DueChannel, dueChannels, reschedule } from '../channel/agenda.js';
import { recover } from '../channel/recover.js';
import type { BlockEnd } from '../domain/transition.js';
import type { Log } from '../observe/log.js';
import type { Count } from '../observe/metrics.js';
import type { RedisClient } from '../redis/client.js';
import { isIncurable, withDeadline } from '../redis/deadline.js';
import type { Keys } from '../redis/keys.js';
import type { LiveRules } from '../rules/port.js';

const AT_ONCE = 32;
const PAGE = 500;
const PAGES = 40;
const DEADLINE_MS = 2_000;
const SET_ASIDE_MS = 60_000;

export type Watching = {
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly rules: LiveRules;
  readonly announcer: Announcer;
  readonly freshForMs: number;
  readonly log: Log;
  readonly count: Count;
};

/** What one sweep did. `failed` channels stay due. */
export type SweepReport = { readonly looked: number; readonly moved: number; readonly failed: number };

/**
 * The watcher's single step: looks at every channel that is due, takes what its time has come for, and announces whatever waits in an
 * outbox. Any number may run at once: the script decides who moves a channel, and a score that changed meanwhile is left alone.
 *
 * @throws when the agenda itself cannot be read
 */
export async function sweep(watching: Watching): Promise<SweepReport> {
  const { client, keys } = watching;
  const report = { looked: 0, moved: 0, failed: 0 };
  const seen = new Set<string>();
  for (let page = 0; page < PAGES; page += 1) {
    const found = await withDeadline(dueChannels(client, keys, PAGE + seen.size), DEADLINE_MS, 'the agenda');
    const due = found.filter(({ channel }) => !seen.has(channel));
    if (due.length === 0) break;
    for (const { channel } of due) seen.add(channel);
    for (let from = 0; from < due.length; from += AT_ONCE) {
      const looks = await Promise.all(due.slice(from, from + AT_ONCE).map((one) => look(watching, one)));
      report.looked += looks.length;
      report.failed += looks.filter((result) => result === 'failed').length;
      report.moved += looks.filter((result) => result === 'moved').length;
    }
    if (found.length < PAGE) break;
  }
  return report;
}

async function look(watching: Watching, { channel, score }: DueChannel): Promise<'moved' | 'still' | 'failed'> {
  const { client, keys, rules, announcer, freshForMs, log } = watching;
  try {
    const call = recover(client, keys, channel, rules.policyFor(channel), freshForMs);
    const found = await withDeadline(call, DEADLINE_MS, 'recover.lua');
    if (found.outbox.length > 0) {
      return (await announcer.announce(channel, score, found)) || found.pushed > 0 ? 'moved' : 'failed';
    }
    await announcer.reschedule(channel, score, found.dueAt, found.nowMs);
    return 'still';
  } catch (error) {
    if (isIncurable(error)) await setAside(watching, { channel, score }, error);
    else log.warn({ channel, err: error }, 'a channel that is due could not be looked at: the next sweep tries again');
    return 'failed';
  }
}

/** A key of a foreign type needs a person: looked at again in a while, not told every second. */
async function setAside(
  { client, keys, log }: Watching,
  { channel, score }: DueChannel,
  error: unknown,
): Promise<void> {
  const again = `looked at again in ${SET_ASIDE_MS / 1_000} s`;
  log.error({ channel, err: error }, `a key of this channel has a foreign type: delete it (docs/keys.md); ${again}`);
  const move = async () => {
    const [seconds] = await client.time();
    await reschedule(client, keys, channel, score, Number(seconds) * 1_000 + SET_ASIDE_MS);
  };
  await withDeadline(move(), DEADLINE_MS, 'the agenda').catch(() => {});
}

/**
 * A recovery job's step: the end of one block, at once. Resolves to how many ms are left where the job came early (clocks differ), and
 * to 0 when there is nothing more to do for it.
 */
export async function endBlock(watching: Watching, end: BlockEnd): Promise<number> {
  const { client, keys, rules, announcer, freshForMs } = watching;
  const { channel } = end;
  const call = recover(client, keys, channel, rules.policyFor(channel), freshForMs, end);
  const found = await withDeadline(call, DEADLINE_MS, 'recover.lua');
  if (found.outbox.length > 0) {
    const [score] = await announcer.mark([channel]);
    await announcer.announce(channel, score!, found);
    return 0;
  }
  return found.dueAt > found.nowMs && found.dueAt <= end.until ? found.dueAt - found.nowMs : 0;
}
