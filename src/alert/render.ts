import {
  type Evidence,
  type GroupFloor,
  ToldKind,
  type Transition,
  type TransitionKind,
} from '../domain/transition.js';
import type { Message } from './message.js';
import { cut, oneLine } from './text.js';
import { fill, type Locale, WORDS, type Words } from './words.js';

export type Reading = {
  readonly locale: Locale;
  /** IANA name. */
  readonly timeZone: string;
  /** At its end the block goes on until a person unblocks: nobody is to expect the channel back by then. */
  readonly isReleasedByHand?: boolean | undefined;
};

const TOP = 5;
const VALUE_MAX = 64;
const NOTE_MAX = 300;

/** Whether people are told of this kind at all. */
export function isTold(kind: TransitionKind): kind is ToldKind {
  return ToldKind.options.includes(kind as ToldKind);
}

/**
 * Writes down, once and for all, what people will read about a transition. Pure: the same transition gives the same text, however
 * late it is delivered.
 *
 * @throws {Error} a kind that people are not told of
 */
export function render(transition: Transition, { locale, timeZone, isReleasedByHand = false }: Reading): Message {
  const { kind, trips } = transition;
  if (!isTold(kind)) throw new Error(`transitions of kind ${kind} have no message`);
  const words = WORDS[locale];
  if (transition.group) return renderFloor(transition.group, transition.at, words, clock(timeZone));
  const channel = oneLine(transition.channel);
  const relapse = trips - 1;
  const time = clock(timeZone);
  const lines: Message['lines'] = [];
  const say = (label: keyof Words['label'], value: string | undefined) => {
    if (value) lines.push({ label: words.label[label], value });
  };

  const isNormal = kind === 'level' && !transition.level;
  const isReminder = transition.reason === 'awaits-release';
  say('channel', channel);
  say('state', words.state[kind === 'observed' ? 'observed' : transition.to]);
  say('reason', isNormal ? words.normal.reason : reason(transition, words));
  say('note', transition.note && cut(oneLine(transition.note), NOTE_MAX));
  say('calls', calls(transition, words));
  say('rate', rate(transition, words));
  say('codes', top(transition.evidence, 'code', words));
  say('sources', top(transition.evidence, 'source', words));
  if (kind === 'recovered') say('lasted', lasted(transition, words, time));
  else if (kind !== 'held') say('since', time(transition.blockedAt || transition.at));
  const byHand = isReminder || isReleasedByHand;
  if (kind === 'observed' || (transition.to === 'open' && transition.until === -1))
    say('until', next(transition, words, time));
  else if (transition.to === 'open') say(byHand ? 'reminded' : 'next', next(transition, words, time));
  if (kind === 'forced') say('until', next(transition, words, time));
  if (kind === 'held')
    say('incident', fill(words.incidentOver, { incident: oneLine(transition.incident), relapses: relapse }));
  else if (transition.incident !== '') say('incident', oneLine(transition.incident));
  if (relapse > 0 && kind !== 'held') say('relapse', fill(words.relapse, { relapse }));

  return {
    title: fill(title(transition, kind, words), {
      channel,
      relapse,
      level: oneLine(transition.level ?? ''),
      before: oneLine(transition.before ?? ''),
    }),
    lines,
    untold: { label: words.label.untold, value: words.untold },
    mention: kind === 'blocked' || kind === 'relapsed' || isReminder,
  };
}

function title({ level, before, reason }: Transition, kind: ToldKind, words: Words): string {
  if (reason === 'awaits-release') return words.waiting;
  if (kind !== 'level') return words.title[kind];
  if (!level) return words.normal.title;
  return before ? words.otherwise : words.title.level;
}

/** News of a group: people may have to act, for calls go to channels that are known to fail. */
function renderFloor(
  { name, floor, members, visible, shown }: GroupFloor,
  at: number,
  words: Words,
  time: Clock,
): Message {
  const { label, separator } = words;
  const group = oneLine(name);
  const names = shown.slice(0, TOP).map(({ channel }) => oneLine(channel));
  const each = shown.map(({ channel, until }) =>
    fill(until === -1 ? words.floor.endless : words.floor.until, { channel: oneLine(channel), time: time(until) }),
  );
  return {
    title: fill(shown.length > 0 ? words.title.floor : words.floor.none, { group, shown: names.join(separator) }),
    lines: [
      { label: label.group, value: group },
      { label: label.inUse, value: fill(words.floor.count, { visible, members, floor }) },
      { label: label.shown, value: each.join(separator) || words.floor.nothing },
      { label: label.since, value: time(at) },
    ],
    untold: { label: label.untold, value: words.untold },
    mention: true,
  };
}

function reason({ reason, actor }: Transition, words: Words): string {
  const said = words.reason[reason] ?? cut(oneLine(reason), VALUE_MAX);
  return actor ? fill(words.by, { reason: said, actor: cut(oneLine(actor), VALUE_MAX) }) : said;
}

/** Slots never recorded count as successes, and are told apart from real ones. */
function calls({ size, recorded, succeeded, slow }: Transition, words: Words): string | undefined {
  if (size === undefined || recorded === undefined || succeeded === undefined) return undefined;
  const assumed = Math.max(size - recorded, 0);
  const text = fill(words.calls, { size, succeeded, failed: recorded - succeeded, assumed });
  return slow === undefined ? text : fill(words.slow, { text, slow });
}

function rate({ size, recorded, succeeded, threshold }: Transition, words: Words): string | undefined {
  if (!size || recorded === undefined || succeeded === undefined || threshold === undefined) return undefined;
  const hundredths = Math.round(((size - recorded + succeeded) * 10_000) / size);
  return fill(words.rate, { rate: percent(hundredths), threshold: percent(threshold) });
}

const percent = (hundredths: number) => String(hundredths / 100);

/** The most frequent values among the failures, most frequent first. */
function top(evidence: readonly Evidence[], field: 'code' | 'source', words: Words): string | undefined {
  const counts = new Map<string, number>();
  for (const each of evidence) {
    const text = each[field];
    if (text !== undefined) counts.set(text, (counts.get(text) ?? 0) + 1);
  }
  return [...counts]
    .sort((a, b) => b[1] - a[1])
    .slice(0, TOP)
    .map(([text, count]) => fill(words.window, { text: cut(oneLine(text), VALUE_MAX), count }))
    .join(words.separator);
}

/** `zoned`: with the name of the zone; a period says it once. */
type Clock = (ms: number, zoned?: boolean) => string;

function lasted({ at, blockedAt }: Transition, words: Words, time: Clock): string {
  if (blockedAt <= 0) return words.unknown;
  return fill(words.period, { length: duration(at - blockedAt, words), from: time(blockedAt, false), to: time(at) });
}

function next({ until, at }: Transition, words: Words, time: Clock): string {
  if (until === -1) return words.endless;
  return fill(words.at, { time: time(until), length: duration(until - at, words) });
}

/** `1 h 30 min`, `45 s`, `350 ms`: the two largest units that matter. */
export function duration(ms: number, words: Words): string {
  if (ms < 1_000) return `${Math.max(Math.round(ms), 0)}${words.units.ms}`;
  const seconds = Math.round(ms / 1_000);
  const [h, min, s] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60, seconds % 60];
  const parts = [
    [h, words.units.h],
    [min, words.units.min],
    [h > 0 ? 0 : s, words.units.s],
  ] as const;
  return parts
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count}${unit}`)
    .join(' ');
}

/** `2026-03-01 18:30:00 (Asia/Shanghai)`: the zone is said, because one alert is read in several. */
function clock(timeZone: string): Clock {
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short', timeStyle: 'medium' });
  return (ms, zoned = true) => `${format.format(ms)}${zoned ? ` (${timeZone})` : ''}`;
}
