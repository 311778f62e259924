import type { Alert } from '../../src/alert/adapter.js';
import { render } from '../../src/alert/render.js';
import { groupSubject, Transition } from '../../src/domain/transition.js';

const AT = Date.UTC(2026, 2, 1, 10, 30);

/** A block as the script decides it: four failures of the last ten calls, three slots never recorded. */
export function blocked(changes: Partial<Transition> = {}): Transition {
  return Transition.parse({
    kind: 'blocked',
    channel: 'ALIPAY',
    epoch: AT,
    at: AT,
    from: 'closed',
    to: 'open',
    until: AT + 30 * 60_000,
    reason: 'success-rate',
    incident: String(AT),
    trips: 1,
    block: AT,
    blockedAt: AT,
    size: 10,
    recorded: 7,
    succeeded: 3,
    threshold: 7_000,
    evidence: [
      { at: AT - 3, code: 'TIMEOUT', source: 'checkout@a', durationMs: 3_000 },
      { at: AT - 2, code: '500', source: 'checkout@b' },
      { at: AT - 1, code: 'TIMEOUT', source: 'checkout@a' },
      { at: AT, code: 'TIMEOUT', source: 'checkout@a' },
    ],
    ...changes,
  });
}

/** In use, and below the line of a level. */
export function degraded(changes: Partial<Transition> = {}): Transition {
  return blocked({
    ...{ kind: 'level', to: 'closed', until: 0, reason: 'level', level: 'cached', before: '', incident: '' },
    ...{ trips: 0, block: 0, blockedAt: 0, size: 20, recorded: 20, succeeded: 11, threshold: 6_000 },
    ...changes,
  });
}

/** The end of the block of {@link blocked}. */
export function recovered(changes: Partial<Transition> = {}): Transition {
  const at = AT + 30 * 60_000;
  return Transition.parse({
    kind: 'recovered',
    channel: 'ALIPAY',
    epoch: at,
    at,
    from: 'open',
    to: 'closed',
    reason: 'expired',
    incident: String(AT),
    block: AT,
    blockedAt: AT,
    ...changes,
  });
}

/** A group whose two channels are blocked, with a floor of one. */
export function floorBites(changes: Partial<NonNullable<Transition['group']>> = {}): Transition {
  return Transition.parse({
    ...{ kind: 'floor', channel: groupSubject(changes.name ?? 'pay'), epoch: AT, at: AT, from: 'closed', to: 'closed' },
    ...{ reason: 'floor', incident: String(AT) },
    group: {
      ...{ name: 'pay', floor: 1, members: 2, visible: 0, shown: [{ channel: 'ALIPAY', until: AT + 30 * 60_000 }] },
      ...changes,
    },
  });
}

export function alertOf(transition: Transition, changes: Partial<Alert> = {}): Alert {
  const message = render(transition, { locale: 'en', timeZone: 'UTC' });
  return { id: 'a'.repeat(64), transition, message, untold: false, ...changes };
}

/** Names that broke the markdown, the mentions or the limits of others. */
export const HOSTILE = [
  '<!channel>',
  '<@U123>',
  '@all',
  '@13800000000',
  '[click](https://evil.example)',
  '![x](https://evil.example/x.png)',
  '**bold** `code` ~~gone~~ # heading',
  'a&b<c>d',
  '"quoted" \\ back',
  '微信支付',
  '🔥'.repeat(30),
  '\u202Eevil',
];
