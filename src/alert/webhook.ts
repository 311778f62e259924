import { Webhook } from 'standardwebhooks';
import type { Transition } from '../domain/transition.js';
import { type Adapter, type Alert, JSON_HEADERS, judgeStatus } from './adapter.js';
import { plainText } from './message.js';

/**
 * A plain webhook after the Standard Webhooks specification: `webhook-id` is the same over retries, timestamp and signature are new
 * each time. A secret that begins with `whsec_` is base64, any other is taken as it is. Success is any 2xx.
 */
export const webhook: Adapter = {
  request(alert, { url, secret }, nowMs) {
    const body = JSON.stringify(webhookBody(alert));
    const at = new Date(nowMs);
    const headers: Record<string, string> = {
      ...JSON_HEADERS,
      'webhook-id': alert.id,
      'webhook-timestamp': String(Math.floor(nowMs / 1_000)),
    };
    if (secret !== undefined) headers['webhook-signature'] = signer(secret).sign(alert.id, at, body);
    return { url, headers, body };
  },
  judge: (answer, nowMs) => judgeStatus(answer, nowMs) ?? { outcome: 'delivered' },
};

function signer(secret: string): Webhook {
  if (!secret.startsWith('whsec_')) return new Webhook(secret, { format: 'raw' });
  try {
    return new Webhook(secret);
  } catch {
    throw new Error('the secret must be base64 after whsec_');
  }
}

/** What is posted; described for programs in `docs/webhook.schema.json`. Times are ISO 8601 in UTC. */
export function webhookBody({ id, transition, message, untold }: Alert) {
  const { kind, channel, epoch, from, to, at, until, reason, actor, note, incident, trips, block, blockedAt } =
    transition;
  const { keyUntil, level, before, group } = transition;
  return {
    v: 1,
    id,
    type: group ? `group.${kind}` : `channel.${kind}`,
    channel,
    epoch,
    at: iso(at),
    from,
    to,
    until: until > 0 ? iso(until) : null,
    endless: until === -1,
    ...(keyUntil !== undefined && { keyUntil: iso(keyUntil) }),
    reason,
    level,
    before,
    actor,
    note,
    incident,
    trips,
    relapse: trips - 1,
    block:
      block > 0
        ? { epoch: block, ...(blockedAt > 0 && { at: iso(blockedAt), forMs: Math.max(at - blockedAt, 0) }) }
        : null,
    window: windowOf(transition),
    evidence: transition.evidence.map((each) => ({ ...each, at: iso(each.at) })),
    group: group && { ...group, shown: group.shown.map(shownOf) },
    untold,
    text: plainText(message, untold),
  };
}

function windowOf({ size, recorded, succeeded, slow, threshold }: Transition) {
  if (size === undefined || recorded === undefined || succeeded === undefined) return null;
  const assumed = Math.max(size - recorded, 0);
  const thresholdPercent = threshold === undefined ? null : threshold / 100;
  return { size, recorded, succeeded, failed: recorded - succeeded, assumed, slow, thresholdPercent };
}

function shownOf({ channel, until }: { channel: string; until: number }) {
  return { channel, until: until > 0 ? iso(until) : null, endless: until === -1 };
}

/** A foreign hand may have written a time that no calendar has. */
function iso(ms: number): string | null {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? null : date.toISOString();
}
