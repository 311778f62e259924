import { type AuditEntry, appendAudit } from '../channel/audit.js';
import { isEmptyDocument, parseRulesValue } from '../domain/rules.js';
import type { Problem } from '../domain/rules-problems.js';
import type { RedisClient } from '../redis/client.js';
import { withDeadline } from '../redis/deadline.js';
import type { Keys } from '../redis/keys.js';
import { loadScript, runScript, type Script } from '../redis/script.js';
import { changeLines, diffRules, type RulesChange } from './diff.js';
import { readText } from './parse.js';
import { readStored, type StoredRules, sha1, writeStored } from './stored.js';

/** How many versions `rules history` remembers. */
export const HISTORY_MOST = 50;
const STORE_DEADLINE_MS = 2_000;

/** Where the rules lie. The client stays the caller's. */
export type RulesStore = { readonly client: RedisClient; readonly keys: Keys; readonly deadlineMs?: number };

export type SetRules = {
  /** The version that the caller looked at (0: none). Another in Redis means a conflict, and nothing is changed. */
  readonly expectedVersion: number;
  /** Text (YAML or JSON) or value, full or flat form. Stored as written, references included. */
  readonly document: unknown;
  /** Who does it, for the history. */
  readonly actor: string;
  /** An empty document needs this, because it switches every block off. Also when the key is empty: processes may still live by the last one. */
  readonly confirmEmpty?: boolean;
};

/** `changed: false`: the document in force says the same already, its version stays. */
export type SetRulesResult =
  | {
      readonly ok: true;
      readonly version: number;
      readonly changed: boolean;
      readonly diff: readonly RulesChange[];
      readonly warnings: readonly Problem[];
    }
  | { readonly ok: false; readonly reason: 'invalid'; readonly problems: readonly Problem[] }
  | { readonly ok: false; readonly reason: 'conflict'; readonly version: number; readonly actor?: string }
  | { readonly ok: false; readonly reason: 'empty' }
  | { readonly ok: false; readonly reason: 'unknown-version' };

/** What lies under `fuseline:config`; `undefined`: nothing. @throws Redis away, or no answer in time */
export async function getRules(store: RulesStore): Promise<StoredRules | undefined> {
  const text = await answer(store, store.client.get(store.keys.config), 'GET of the rules');
  return text === null ? undefined : readStored(text);
}

/**
 * Puts a document into force, if it is valid as a whole and the version in Redis is still the expected one.
 *
 * @throws Redis away, or no answer in time: then the document may be in force or not; look with {@link getRules}
 */
export async function setRules(store: RulesStore, request: SetRules): Promise<SetRulesResult> {
  return put(store, request, { action: 'rules-set' });
}

/** How the audit trail tells it. */
type Told = { readonly action: 'rules-set' | 'rules-rollback'; readonly note?: string };

async function put(store: RulesStore, request: SetRules, told: Told): Promise<SetRulesResult> {
  const read =
    typeof request.document === 'string' ? readText(request.document) : { ok: true as const, value: request.document };
  if (!read.ok) return { ok: false, reason: 'invalid', problems: read.problems };
  const document = read.value;
  const parsed = parseRulesValue(document);
  if (!parsed.ok) return { ok: false, reason: 'invalid', problems: parsed.problems };

  if (isEmptyDocument(document) && !request.confirmEmpty) return { ok: false, reason: 'empty' };

  const current = await getRules(store);
  const version = current?.version ?? 0;
  if (version !== request.expectedVersion) return conflict(current);
  if (isEmptyDocument(document) && !isEmptyDocument(current?.document) && !request.confirmEmpty)
    return { ok: false, reason: 'empty' };
  const { warnings } = parsed;
  if (current !== undefined && sameDocument(current, document))
    return { ok: true, version, changed: false, diff: [], warnings };

  const newest = await keepInHistory(store, current);
  const next = Math.max(version, newest) + 1;
  const text = writeStored(next, request.actor, document);
  const seen = current === undefined ? '' : sha1(current.text);
  const script = runScript(store.client, putRules(), [store.keys.config], [seen, text]);
  if ((await answer(store, script, 'setting the rules')) !== 1) return conflict(await getRules(store));
  await pushHistory(store, text);
  const diff = diffRules(current?.document, document);
  const entry = { ...told, actor: request.actor, from: String(version), to: String(next), changes: changeLines(diff) };
  const untold = await audit(store, entry);
  return { ok: true, version: next, changed: true, diff, warnings: [...warnings, ...untold] };
}

/** A version that was in force. `version` and `actor` as in {@link StoredRules}; `current`: it is in force now. */
export type HistoryEntry = StoredRules & { readonly current: boolean };

/** The versions that were in force, the one in force first, then newest first. @throws Redis away, or no answer in time */
export async function rulesHistory(store: RulesStore): Promise<HistoryEntry[]> {
  const current = await getRules(store);
  const texts = await answer(
    store,
    store.client.lrange(store.keys.configHistory, 0, HISTORY_MOST - 1),
    'the history of the rules',
  );
  const earlier = [...new Set(texts)]
    .filter((text) => text !== current?.text)
    .map((text): HistoryEntry => ({ ...readStored(text), current: false }))
    .sort((a, b) => b.version - a.version);
  return current === undefined ? earlier : [{ ...current, current: true }, ...earlier];
}

/**
 * Puts an earlier version's document into force again, as a new version. It is judged anew: what was valid once may not be now.
 *
 * @throws Redis away, or no answer in time
 */
export async function rollbackRules(
  store: RulesStore,
  request: Omit<SetRules, 'document'> & { readonly toVersion: number },
): Promise<SetRulesResult> {
  const { toVersion, ...rest } = request;
  const entry = (await rulesHistory(store)).find(
    ({ version, unreadable }) => version === toVersion && unreadable === undefined,
  );
  if (entry === undefined) return { ok: false, reason: 'unknown-version' };
  const told: Told = { action: 'rules-rollback', note: `version ${toVersion} again` };
  return put(store, { ...rest, document: entry.document }, told);
}

/** Whether a stored document says what this one says. The order of keys counts: of patterns the first wins. */
export function sameDocument(stored: StoredRules, document: unknown): boolean {
  if (stored.unreadable !== undefined) return false;
  if (isEmptyDocument(document)) return stored.confirmedEmpty;
  return JSON.stringify(stored.document) === JSON.stringify(document);
}

let loaded: Script | undefined;
function putRules(): Script {
  loaded ??= loadScript('put-rules');
  return loaded;
}

/** The rules are in force already: a trail that cannot be written is a warning, no failure. */
async function audit(store: RulesStore, entry: AuditEntry): Promise<Problem[]> {
  try {
    await answer(store, appendAudit(store.client, store.keys, entry), 'the append to the audit trail');
    return [];
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return [{ path: '', message: `the change is in force, yet not in the audit trail: ${why}` }];
  }
}

/**
 * Makes sure that what is about to be replaced is in the history, also when it was written by a foreign hand, or when whoever set it
 * died before it was noted. Before the change, so that no crash loses it. Returns the newest version in the history, or 0.
 */
async function keepInHistory(store: RulesStore, current: StoredRules | undefined): Promise<number> {
  const head = await answer(store, store.client.lindex(store.keys.configHistory, 0), 'the history of the rules');
  if (current !== undefined && head !== current.text) await pushHistory(store, current.text);
  return head === null ? 0 : readStored(head).version;
}

/** Two commands and not one script with the change: on a cluster the list lies in another slot. */
async function pushHistory({ client, keys, ...store }: RulesStore, text: string): Promise<void> {
  await answer(store, client.lpush(keys.configHistory, text), 'noting the rules');
  await answer(store, client.ltrim(keys.configHistory, 0, HISTORY_MOST - 1), 'noting the rules');
}

function conflict(current: StoredRules | undefined): SetRulesResult {
  return {
    ok: false,
    reason: 'conflict',
    version: current?.version ?? 0,
    ...(current?.actor === undefined ? {} : { actor: current.actor }),
  };
}

function answer<T>(
  { deadlineMs = STORE_DEADLINE_MS }: { readonly deadlineMs?: number },
  call: Promise<T>,
  what: string,
): Promise<T> {
  return withDeadline(call, deadlineMs, what);
}
