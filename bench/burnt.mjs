// Who is burnt while a channel is down: calls that reach it after it was blocked for the first time. Ten minutes of a dead channel, 100 calls
// a second from 8 processes, under a clock that is only counted: the judgement (ChannelModel), what each process knows (the reader's view)
// and who is admitted are the real code, and so is cockatiel's breaker; Redis, the log and the way between are a delay.

import { CountBreaker, circuitBreaker, handleAll } from 'cockatiel';
import { ChannelModel } from '../dist/src/domain/channel-model.js';
import { parseRulesValue } from '../dist/src/domain/rules.js';
import { createAdmit } from '../dist/src/guard/admit.js';
import { LINGER_MS } from '../dist/src/guard/lender.js';
import { applyTransition, describeView, newView, trialOf } from '../dist/src/reader/view.js';
import { FakePermits } from '../dist/src/testing/fake-permits.js';
import { whole } from './figures.mjs';
import { seeded } from './judgement.mjs';

const CHANNEL = 'ALIPAY';
const START = 1_760_000_000_000;
const PROCESSES = 8;
const CALL_EVERY_MS = 10;
const DEAD_MS = 600_000;
/** Long enough to see everybody back. */
const END_MS = 1_500_000;
/** How long a call takes, to its failure or its answer. */
const CALL_MS = 300;
/** From the end of a call to every process knowing what follows from it: above the p99 that bench/latency.mjs measures. */
const DELAY_MS = 20;
const USERS = 10_000;

const BLOCK = { for: '30s', growth: 2 };
const RULES = {
  'full release': { block: BLOCK },
  'half-open, 10 % of users': { block: BLOCK, halfOpen: { percent: 10 } },
  'half-open, 1 permit': { block: BLOCK, halfOpen: { permits: 1 } },
  'half-open, 1 permit, block at most 1m': { block: { ...BLOCK, max: '1m' }, halfOpen: { permits: 1 } },
  'half-open, 10 %, then 20, 50, 100': { block: BLOCK, halfOpen: { percent: 10, ramp: [20, 50, 100] } },
};
const BREAKER = 'a breaker per process, reset 30 s';
const PERMITS = 'half-open, 1 permit';

/** Events by time; of the same time in the order in which they came. */
class Clock {
  now = START;
  #events = [];
  #count = 0;

  at(time, run) {
    const event = { time, order: this.#count++, run };
    const events = this.#events;
    let i = events.push(event) - 1;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (!isBefore(event, events[parent])) break;
      events[i] = events[parent];
      i = parent;
    }
    events[i] = event;
  }

  /** Runs what is due, one event after the other; `turn` lets promises go on after each. */
  async run(until, turn) {
    while (this.#events.length > 0 && this.#events[0].time <= until) {
      const { time, run } = this.#take();
      this.now = time;
      run();
      if (turn) await turn();
    }
  }

  #take() {
    const events = this.#events;
    const first = events[0];
    const last = events.pop();
    if (events.length === 0) return first;
    let i = 0;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= events.length) break;
      if (child + 1 < events.length && isBefore(events[child + 1], events[child])) child += 1;
      if (!isBefore(events[child], last)) break;
      events[i] = events[child];
      i = child;
    }
    events[i] = last;
    return first;
  }
}

function isBefore(a, b) {
  return a.time < b.time || (a.time === b.time && a.order < b.order);
}

/** Every call of the fleet in turn: which process, at what time, for whom. */
function makeCalls(clock, call) {
  const random = seeded(1);
  const next = (n) => {
    if (n * CALL_EVERY_MS >= END_MS) return;
    clock.at(START + n * CALL_EVERY_MS, () => {
      call(n % PROCESSES, `user-${Math.floor(random() * USERS)}`);
      next(n + 1);
    });
  };
  next(0);
}

const isDead = (now) => now < START + DEAD_MS;

/** What is counted. `since`: when the counting begins, which is at the first block that the caller of this names. */
function tally() {
  return { reached: 0, total: 0, lastKeptOut: 0 };
}

/** The fleet under these rules, with one state for all processes. */
export async function fleet(rule) {
  const parsed = parseRulesValue({ mode: 'on', defaults: rule });
  if (!parsed.ok) throw new Error(parsed.problems[0]?.message);
  const policy = parsed.rules.policyFor(CHANNEL);
  const clock = new Clock();
  const model = new ChannelModel(CHANNEL);
  const permits = new FakePermits(() => clock.now);
  const views = Array.from({ length: PROCESSES }, () => newView(CHANNEL));
  const admits = views.map((view) => {
    const stateOf = () => describeView(CHANNEL, view, view.blocked, trialOf(view, policy));
    const reader = { isBlocked: () => view.blocked, isFloored: () => false, stateOf };
    return createAdmit(reader, { lend: permits.lend, leaseMs: 60_000 });
  });
  const count = tally();
  let blocks = 0;
  let firstBlockAt = Number.POSITIVE_INFINITY;
  let position = 0;

  /** What the channel decided reaches everybody; and the watcher looks again when it is time. */
  const settle = () => {
    for (const transition of model.takeTransitions()) {
      if (transition.kind === 'blocked' || transition.kind === 'relapsed') blocks += 1;
      if (transition.kind === 'blocked') firstBlockAt = Math.min(firstBlockAt, clock.now);
      for (const view of views) applyTransition(view, transition, clock.now, clock.now);
    }
    const due = model.nextDue();
    if (due > clock.now) clock.at(due + DELAY_MS, look);
  };
  const look = () => {
    model.recover(policy, clock.now);
    settle();
  };
  const judge = (isGood) => {
    position += 1;
    const evidence = isGood ? [] : ['{"at":1}'];
    const batch = {
      partition: 'bench/log/0/0',
      results: isGood ? '1' : '0',
      entries: [[String(position), clock.now, 1]],
    };
    model.record(policy, { ...batch, times: [DELAY_MS, CALL_MS], evidence }, clock.now);
    settle();
  };

  makeCalls(clock, (process, key) => {
    const admission = admits[process](CHANNEL, { key });
    if (!admission.admitted) {
      count.lastKeptOut = clock.now;
      return;
    }
    const isGood = !isDead(clock.now);
    if (!isGood) count.total += 1;
    if (!isGood && clock.now > firstBlockAt) count.reached += 1;
    clock.at(clock.now + CALL_MS, () => {
      clock.at(clock.now + (isGood ? 0 : LINGER_MS), () => admission.release());
      clock.at(clock.now + DELAY_MS, () => judge(isGood));
    });
  });
  await clock.run(START + END_MS);
  return { ...count, blocks };
}

/** Each process for itself. What a process lets through before its own first opening is not counted, though others have opened by then. */
export async function breakers() {
  const clock = new Clock();
  const count = tally();
  const opened = new Set();
  let blocks = 0;
  const each = Array.from({ length: PROCESSES }, (_, process) => {
    const breaker = circuitBreaker(handleAll, {
      halfOpenAfter: 30_000,
      breaker: new CountBreaker({ threshold: 0.3, size: 10, minimumNumberOfCalls: 4 }),
    });
    breaker.onBreak(() => {
      blocks += 1;
      opened.add(process);
    });
    return breaker;
  });
  const answer = (isGood) =>
    new Promise((resolve, reject) => {
      clock.at(clock.now + CALL_MS, () => (isGood ? resolve() : reject(new Error('down'))));
    });
  makeCalls(clock, (process) => {
    const isOpened = opened.has(process);
    let isCalled = false;
    const call = () => {
      isCalled = true;
      const isGood = !isDead(clock.now);
      if (!isGood) count.total += 1;
      if (!isGood && isOpened) count.reached += 1;
      return answer(isGood);
    };
    const made = each[process].execute(call).catch(() => {});
    // Whether it was called is known a turn later.
    void made.then(() => {});
    clock.at(clock.now, () => {
      if (!isCalled) count.lastKeptOut = clock.now;
    });
  });
  const { now } = Date;
  Date.now = () => Math.floor(clock.now);
  try {
    await clock.run(START + END_MS, () => new Promise(setImmediate));
  } finally {
    Date.now = now;
  }
  return { ...count, blocks };
}

/** @returns {Promise<boolean>} whether the promises were kept */
export async function burnt() {
  console.log('burnt: a channel dead for 10 minutes, 100 calls/s from 8 processes; block: { for: 30s, growth: 2 }\n');
  console.log(
    '| | calls that reached it after the first block | and before | times blocked | all back in use after it was well |',
  );
  console.log('| --- | --- | --- | --- | --- |');
  const rows = {};
  for (const [name, rule] of Object.entries(RULES)) rows[name] = await fleet(rule);
  rows[BREAKER] = await breakers();
  for (const [name, { reached, total, blocks, lastKeptOut }] of Object.entries(rows)) {
    const back = Math.max(0, Math.round((lastKeptOut - START - DEAD_MS) / 1_000));
    console.log(`| ${name} | ${whole(reached)} | ${whole(total - reached)} | ${blocks} | ${back} s |`);
  }
  const least = Math.max(1, rows[PERMITS].reached);
  const promises = [
    { than: 'full release', wanted: 4 },
    { than: BREAKER, wanted: 20 },
  ];
  console.log('');
  let isKept = true;
  for (const { than, wanted } of promises) {
    const ratio = rows[than].reached / least;
    if (ratio < wanted) isKept = false;
    const verdict = ratio >= wanted ? 'ok  ' : 'FAIL';
    console.log(`  ${verdict} permits (1) burn ${ratio.toFixed(1)} times fewer than ${than}, wanted ${wanted}`);
  }
  return isKept;
}
