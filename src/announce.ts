import { mark, reschedule } from './channel/agenda.js';
import { appendAuditOf } from './channel/audit.js';
import { appendToFeed } from './channel/feed.js';
import { appendIncident } from './channel/incidents.js';
import { settle } from './channel/recover.js';
import type { Transition } from './domain/transition.js';
import type { Log } from './observe/log.js';
import type { Count } from './observe/metrics.js';
import type { Queues } from './queue/queues.js';
import type { RedisClient } from './redis/client.js';
import { isIncurable, withDeadline } from './redis/deadline.js';
import type { Keys } from './redis/keys.js';

/** How long a channel that is not plainly closed goes without a look: other programs may delete or move its block key. */
export const LOOK_EVERY_MS = 5_000;
/** A marked channel that is plainly closed stays this long: direct mode marks before it calls. */
const SECOND_LOOK_MS = 10_000;
const DEADLINE_MS = 2_000;
/** While the queue is away every batch and every sweep tries again: feed and history get a transition only so often meanwhile. */
const APPEND_AGAIN_MS = 60_000;
const APPENDED_KEPT = 10_000;
/** After a failure the same transitions are not tried again sooner, however many batches bring them: shorter than a sweep's turn. */
const TRY_AGAIN_MS = 900;

/** `pushed`: how many of `outbox`, the newest, the caller's own script call decided; it alone counts and logs them. */
export type Decided = { readonly pushed: number; readonly outbox: readonly Transition[] };

export type Announcer = {
  /** Puts channels on the agenda, due at once; resolves to their scores. After it no transition of theirs can be lost. */
  mark(channels: readonly string[]): Promise<string[]>;
  /**
   * Makes the transitions of a marked channel known: feed, history, audit trail, recovery and alert jobs; then settles the outbox and sets the next
   * look. Never rejects: what fails is logged, the channel stays due, and a sweep does it again.
   *
   * @returns true when all that was in the outbox is told and gone from it
   */
  announce(channel: string, score: string, decided: Decided): Promise<boolean>;
  /** Sets the next look of a channel whose outbox is empty. `dueAt`, `nowMs`: see `Look`. */
  reschedule(channel: string, score: string, dueAt: number, nowMs: number): Promise<void>;
};

export type AnnouncerOptions = {
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly queues: Pick<Queues, 'addRecovery' | 'addNotify'>;
  readonly log: Log;
  readonly count: Count;
};

/** Joins agenda, feed and queues: every flow that can take a transition (intake, watcher, direct mode, the operator) ends here. */
export function createAnnouncer({ client, keys, queues, log, count }: AnnouncerOptions): Announcer {
  const appended = new Map<string, number>();
  const telling = new Map<string, { readonly epochs: ReadonlySet<number>; readonly told: Promise<boolean> }>();
  const failed = new Map<string, { readonly epochs: ReadonlySet<number>; readonly at: number }>();

  /** Readers follow the feed, so it waits for no queue. */
  async function append(transition: Transition): Promise<void> {
    const name = `${transition.epoch} ${transition.channel}`;
    const before = appended.get(name);
    if (before !== undefined && performance.now() - before < APPEND_AGAIN_MS) return;
    await withDeadline(appendToFeed(client, keys, transition), DEADLINE_MS, 'the append to the feed');
    // What a third party asked for is no incident.
    if (transition.incident !== '')
      await withDeadline(appendIncident(client, keys, transition), DEADLINE_MS, 'the append to the incidents');
    await audit(transition);
    appended.delete(name);
    appended.set(name, performance.now());
    if (appended.size > APPENDED_KEPT) appended.delete(appended.keys().next().value!);
  }

  /** Who announces writes down whose hand it was, so that a command that died in the middle is in the trail all the same. */
  async function audit(transition: Transition): Promise<void> {
    try {
      await withDeadline(appendAuditOf(client, keys, transition), DEADLINE_MS, 'the append to the audit trail');
    } catch (error) {
      // A key of another type needs a person; nobody goes untold for it.
      if (!isIncurable(error)) throw error;
      log.error(
        { channel: transition.channel, err: error },
        `${keys.audit} has a foreign type: delete it (docs/keys.md)`,
      );
    }
  }

  async function addJobs(transition: Transition, nowMs: number): Promise<void> {
    // A shadow block has no end that anybody is told of, and a lost state must not make one up from its job.
    if (transition.to !== 'closed' && transition.until > 0 && transition.kind !== 'observed') {
      const { channel, block, until, incident, trips, blockedAt } = transition;
      await queues.addRecovery({
        channel,
        block,
        until,
        incident,
        trips,
        blockedAt,
        delayMs: Math.max(0, until - nowMs),
      });
    }
    await queues.addNotify(transition);
  }

  async function setNext(channel: string, score: string, dueAt: number, nowMs: number): Promise<boolean> {
    const soon = nowMs + LOOK_EVERY_MS;
    const marked = score.startsWith('-');
    const at = dueAt > 0 ? Math.min(dueAt, soon) : dueAt === -1 ? soon : marked ? nowMs + SECOND_LOOK_MS : 0;
    return await withDeadline(reschedule(client, keys, channel, score, at), DEADLINE_MS, 'the agenda');
  }

  async function tell(channel: string, score: string, outbox: readonly Transition[]): Promise<boolean> {
    try {
      // With its microseconds: whole seconds would put the end of a block up to one second off.
      const [seconds, micros] = await withDeadline(client.time(), DEADLINE_MS, 'TIME');
      const begunMs = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
      for (const transition of outbox) await append(transition);
      for (const transition of outbox) await addJobs(transition, begunMs);
      count('fuseline_announcements_total', { result: 'told' }, outbox.length);
      const epochs = outbox.map(({ epoch }) => epoch);
      const settled = settle(client, keys, channel, epochs);
      const { left, dueAt, nowMs } = await withDeadline(settled, DEADLINE_MS, 'settle.lua');
      if (left > 0) return false;
      // Refused when somebody marked or moved the channel meanwhile: then it is theirs to look at, and due no later.
      await setNext(channel, score, dueAt, nowMs);
      return true;
    } catch (error) {
      count('fuseline_announcements_total', { result: 'failed' });
      log.warn(
        { channel, err: error },
        'a transition could not be announced yet: it stays in the outbox, the next sweep tries again',
      );
      return false;
    }
  }

  return {
    mark: (channels) => withDeadline(mark(client, keys, channels), DEADLINE_MS, 'the agenda'),

    async announce(channel, score, { pushed, outbox }) {
      for (const transition of outbox.slice(outbox.length - pushed)) {
        count('circuit_breaker_state_changes_total', { channel, kind: transition.kind });
        const { kind, epoch, incident, reason, until, trips } = transition;
        log.info({ channel, kind, epoch, incident, reason, until, trips }, `channel ${kind}`);
      }
      // Every batch of a channel with something in its outbox comes here: those that bring nothing new wait for the one under way.
      const underWay = telling.get(channel);
      if (underWay && outbox.every(({ epoch }) => underWay.epochs.has(epoch))) return underWay.told;
      const lately = failed.get(channel);
      const isTooSoon = lately !== undefined && performance.now() - lately.at < TRY_AGAIN_MS;
      if (isTooSoon && outbox.every(({ epoch }) => lately.epochs.has(epoch))) return false;
      const mine = { epochs: new Set(outbox.map(({ epoch }) => epoch)), told: tell(channel, score, outbox) };
      telling.set(channel, mine);
      const told = await mine.told;
      if (told) failed.delete(channel);
      else failed.set(channel, { epochs: mine.epochs, at: performance.now() });
      if (telling.get(channel) === mine) telling.delete(channel);
      return told;
    },

    async reschedule(channel, score, dueAt, nowMs) {
      await setNext(channel, score, dueAt, nowMs);
    },
  };
}
