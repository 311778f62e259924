import { open, stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { RULES_MAX_BYTES } from '../domain/rules.js';
import { sleep, withDeadline } from '../redis/deadline.js';
import type { RulesSource } from './port.js';

/** Together with the 500 ms at which every process looks at Redis, a change is everywhere within a second. */
const LOOK_EVERY_MS = 250;
/** A file that still changes after this long is being written: half a YAML file is often valid YAML with half the channels. */
const SETTLE_MS = 50;
const SOURCE_DEADLINE_MS = 2_000;

/** A file of rules, YAML or JSON. Looked at, not subscribed to: that also sees mounted and replaced files (ConfigMaps). */
export function fileSource(path: string): RulesSource {
  let seen = '';
  return {
    name: `file ${basename(path)}`,
    everyMs: LOOK_EVERY_MS,
    async read(signal) {
      const before = await fingerprint(path);
      if (before === seen) return undefined;
      await sleep(SETTLE_MS, signal);
      const document = await readCapped(path);
      if ((await fingerprint(path)) !== before) return undefined;
      seen = before;
      return { document };
    },
  };
}

/** A function of the caller's that returns the document (text or value); asked again and again, with a deadline of 2 s. */
export function functionSource(name: string, load: () => unknown): RulesSource {
  return {
    name: `function ${name}`,
    everyMs: LOOK_EVERY_MS,
    async read() {
      return {
        document: await withDeadline(Promise.resolve().then(load), SOURCE_DEADLINE_MS, `the rules function ${name}`),
      };
    },
  };
}

export type HttpSourceOptions = {
  readonly url: string;
  /** Sent with every request, e.g. `authorization`. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly everyMs?: number;
  /** For a whole request: connect, headers and body. */
  readonly deadlineMs?: number;
};

/** A document behind a URL, polled with `If-None-Match` (RFC 9110 §13.1.2). Redirects are not followed; the body has a cap.
 * @throws {Error} not a URL */
export function httpSource({
  url,
  headers = {},
  everyMs = 300,
  deadlineMs = SOURCE_DEADLINE_MS,
}: HttpSourceOptions): RulesSource {
  if (!URL.canParse(url)) throw new Error('the URL of the rules is not a URL');
  const { host } = new URL(url);
  let etag: string | null = null;
  return {
    name: `http ${host}`,
    everyMs,
    async read(signal) {
      const deadline = AbortSignal.any([signal, AbortSignal.timeout(deadlineMs)]);
      const conditional: Record<string, string> = etag === null ? {} : { 'if-none-match': etag };
      const response = await fetch(url, {
        headers: { ...headers, ...conditional },
        redirect: 'error',
        signal: deadline,
      }).catch((error) => {
        throw new Error(`${host} gives no answer: ${reasonOf(error)}`, { cause: error });
      });
      if (response.status !== 200) {
        await response.body?.cancel();
        if (response.status === 304) return undefined;
        throw new Error(`${host} answers ${response.status} instead of the rules`);
      }
      const document = await bodyText(response, host);
      etag = response.headers.get('etag');
      return { document };
    },
  };
}

async function fingerprint(path: string): Promise<string> {
  const { ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
  return `${ino} ${size} ${mtimeNs} ${ctimeNs}`;
}

async function readCapped(path: string): Promise<string> {
  const file = await open(path);
  try {
    const buffer = Buffer.alloc(RULES_MAX_BYTES + 1);
    let length = 0;
    for (;;) {
      const { bytesRead } = await file.read(buffer, length, buffer.length - length);
      if (bytesRead === 0) return buffer.toString('utf8', 0, length);
      length += bytesRead;
      if (length > RULES_MAX_BYTES) throw new Error(`the file has more than ${RULES_MAX_BYTES} bytes`);
    }
  } finally {
    await file.close();
  }
}

async function bodyText(response: Response, host: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body ?? []) {
    length += chunk.length;
    // Leaving the loop cancels the body.
    if (length > RULES_MAX_BYTES) throw new Error(`${host} sends more than ${RULES_MAX_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** fetch says only "fetch failed"; the code below it says why. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === 'TimeoutError') return 'no answer in time';
  const cause = error.cause as { code?: string; message?: string } | undefined;
  return cause?.code ?? cause?.message ?? error.name;
}
