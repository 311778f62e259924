import { z } from 'zod';
import type { Transition } from '../domain/transition.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';

/** Entries kept; housekeeping also removes what is older than {@link AUDIT_KEPT_MS}. */
export const AUDIT_KEPT = 10_000;
export const AUDIT_KEPT_MS = 366 * 86_400_000;
/** Among so many of the newest entries a transition is looked for before it is written: announcing it twice is an entry of moments ago. */
const LOOKED_THROUGH = 50;
const PAGE = 1_000;

/**
 * One change that no rule made by itself.
 *
 * - By a person: `block`, `extend`, `shorten`, `unblock`, `force-closed` (kept in use and not judged), `load-set`, `load-clear`, `rules-set`, `rules-rollback`.
 * - By another program, on the block key: `foreign-block`, `foreign-extend`, `foreign-shorten`, `foreign-unblock`.
 *
 * An open set: show what you do not know.
 */
export type AuditEntry = {
  readonly action: string;
  /** Absent where the change concerns no single channel. */
  readonly channel?: string;
  /** Absent: another program, which leaves no name. */
  readonly actor?: string;
  readonly note?: string;
  /** What was before and after: a channel's state, a version of the rules, or the load that was set. */
  readonly from?: string;
  readonly to?: string;
  /** Planned end of what the change began, Redis ms; -1: without end; absent: it has none to begin with. */
  readonly until?: number;
  /** Of the transition; with the channel it names the change for ever. */
  readonly epoch?: number;
  /** A change of the rules, one line for each place, secrets masked. */
  readonly changes?: readonly string[];
};

/** As it is stored. `at`: when Redis took it, ms. */
export type AuditRecord = AuditEntry & { readonly id: string; readonly at: number };

/** The entry that a transition asks for; `undefined` where a rule made it, and nobody's hand. */
export function auditOf(transition: Transition): AuditEntry | undefined {
  const { kind, channel, epoch, from, to, until, reason, actor, note } = transition;
  const isForce = kind === 'forced' || kind === 'force-ended';
  const foreign = reason === 'external' || reason === 'deleted' || reason === 'evicted';
  if (!foreign && !isForce && reason !== 'manual') return undefined;
  const verb = VERBS[kind] ?? kind;
  return {
    action: foreign ? `foreign-${verb}` : verb,
    ...{ channel, epoch, from, to },
    ...(until === 0 ? {} : { until }),
    ...(actor === undefined || foreign ? {} : { actor }),
    ...(note === undefined || foreign ? {} : { note }),
  };
}

const VERBS: Partial<Record<Transition['kind'], string>> = {
  blocked: 'block',
  relapsed: 'block',
  extended: 'extend',
  shortened: 'shorten',
  forced: 'force-closed',
  'force-ended': 'force-ended',
  recovered: 'unblock',
};

/** Appends a change to the trail. @throws what Redis answers */
export async function appendAudit(client: RedisClient, keys: Keys, entry: AuditEntry): Promise<void> {
  const { changes, ...plain } = entry;
  const fields = Object.entries({ v: 1, ...plain, ...(changes && { changes: JSON.stringify(changes) }) }).flatMap(
    ([name, value]) => (value === undefined ? [] : [name, String(value)]),
  );
  await client.xadd(keys.audit, 'MAXLEN', '~', AUDIT_KEPT, '*', ...fields);
}

/**
 * Appends what a transition asks for, if anything, and not if it is there already. Two processes that announce one transition in the
 * same moment may both write; {@link readAudit} gives it back once.
 *
 * @throws what Redis answers
 */
export async function appendAuditOf(client: RedisClient, keys: Keys, transition: Transition): Promise<void> {
  const entry = auditOf(transition);
  if (entry === undefined) return;
  const newest = await client.xrevrange(keys.audit, '+', '-', 'COUNT', LOOKED_THROUGH);
  const name = nameOf(entry);
  if (newest.some(([id, fields]) => nameOf(decode(id, fields)) === name)) return;
  await appendAudit(client, keys, entry);
}

/** The whole trail, oldest first, each change once. What cannot be read is left out. @throws what Redis answers */
export async function readAudit(client: RedisClient, keys: Keys): Promise<AuditRecord[]> {
  const records: AuditRecord[] = [];
  const seen = new Set<string>();
  for (let from = '-'; ; ) {
    const page = await client.xrange(keys.audit, from, '+', 'COUNT', PAGE);
    for (const [id, fields] of page) {
      const record = decode(id, fields);
      const name = nameOf(record);
      if (record === undefined || (name !== undefined && seen.has(name))) continue;
      if (name !== undefined) seen.add(name);
      records.push(record);
    }
    if (page.length < PAGE) return records;
    from = `(${page.at(-1)![0]}`;
  }
}

function nameOf(entry: AuditEntry | undefined): string | undefined {
  return entry?.epoch === undefined ? undefined : `${entry.epoch} ${entry.action} ${entry.channel}`;
}

const int = z.coerce.number().int();
const Stored = z.object({
  action: z.string(),
  channel: z.string().optional(),
  actor: z.string().optional(),
  note: z.string().optional(),
  from: z.string().optional(),
  to: z.string().optional(),
  until: int.optional(),
  epoch: int.optional(),
  changes: z
    .string()
    .transform((text): unknown => JSON.parse(text))
    .pipe(z.array(z.string()))
    .optional(),
});

function decode(id: string, fields: readonly string[]): AuditRecord | undefined {
  const pairs = fields.flatMap((name, i) => (i % 2 === 0 ? [[name, fields[i + 1] ?? '']] : []));
  try {
    const parsed = Stored.safeParse(Object.fromEntries(pairs));
    return parsed.success ? { id, at: Number(id.split('-')[0]), ...parsed.data } : undefined;
  } catch {
    return undefined;
  }
}
