import { type ChannelBatch, isAfter, type RecordResult } from './batch.js';
import type { Lane } from './lane.js';
import type { Lanes } from './lanes.js';
import { type Policy, windowTtlMs } from './policy.js';
import type { Evidence } from './transition.js';
import { badIn, isBad, levelOf, sourcesOf, whyBlocked } from './verdict.js';
import { CallLog } from './window/call-log.js';
import { loadWindow, storeWindow } from './window/load.js';
import type { Calls, WindowModel } from './window/window.js';

const EVIDENCE_KEPT = 20;

/** `run`: failures in a row since `runSince`; `suspected`: when people were told that too few sources fail. */
export type Fence = {
  positions: Map<string, { position: string; written: number }>;
  by: string;
  at: number;
  run: number;
  runSince: number;
  suspected: number;
  expiresAt: number;
};

/**
 * What a channel remembers beside its states. The window is kept as it is, with the rule that it was made for: only under another one is it
 * put down and taken up again.
 */
export type Memory = { window: Kept | undefined; evidence: Evidence[]; fence: Fence };
type Kept = { readonly window: WindowModel; readonly rule: Policy['window']; readonly expiresAt: number };

export function newMemory(): Memory {
  const fence = { positions: new Map(), by: '', at: 0, run: 0, runSince: 0, suspected: 0, expiresAt: 0 };
  return { window: undefined, evidence: [], fence };
}

/** `lane`: the one that the outcomes are judged for; closed or half-open. */
export type Bench = {
  readonly policy: Policy;
  readonly lanes: Lanes;
  readonly lane: Lane;
  readonly memory: Memory;
  readonly now: number;
  readonly freshForMs: number;
};

type Tally = { -readonly [K in keyof RecordResult]: RecordResult[K] };

/**
 * Judges the outcomes of one batch in order: the twin of the second half of `lua/record.lua`. Changes memory and lanes, and adds to `result`
 * what became of each outcome.
 */
export function judge(bench: Bench, batch: ChannelBatch, result: Tally): void {
  const { policy, lanes, lane, memory, now, freshForMs } = bench;
  const { fence } = memory;
  const before = fence.positions.get(batch.partition)?.position;
  const kept = memory.window;
  const window = kept?.rule === policy.window ? kept.window : loadWindow(policy, kept && storeWindow(kept.window));
  let since = Math.max(lane.since, lanes.real.since, lanes.forced);
  if (fence.runSince !== since || (window.forgetful && !window.isOpen)) fence.run = 0;
  fence.runSince = since;
  const { levels } = policy;
  // A window that expired took the reason for the level with it.
  const isCaused = policy.mode === 'on' && levels !== undefined && !(window.forgetful && !window.isOpen);
  if (lanes.level !== '' && !isCaused) lanes.changeLevel(now, '');
  const crowdedBefore = crowdedIn(window);
  let verdict: { recorded: number; succeeded: number } | undefined;
  let last = before;
  let at = 0;
  let proofs = 0;
  let isChanged = false;

  /** One outcome that counts. */
  const take = (code: string, ends: number, proof: Evidence | undefined): void => {
    result.counted += 1;
    if (lane.state === 'half-open') {
      tryOne(bench, batch.partition, code, proof);
      // What is left of the batch began before the channel was closed.
      if (lanes.real.state === 'closed') since = now;
      return;
    }
    if (code === '4') {
      const { minMs = 0, maxMs = 0 } = policy.rateLimit ?? {};
      const over = ends + Math.max(minMs, Math.min(Math.ceil(proof?.retryAfterMs ?? 0), maxMs));
      if (lane.shadow || over <= now) return;
      lanes.pause(policy, now, over, proof === undefined ? [] : [proof]);
      window.clear();
      return;
    }
    isChanged = true;
    const call: Calls = code === '0' || code === '3' ? code : '1';
    if (call !== '1') {
      // After a silence longer than the span this is the first failure again.
      window.moveTo(ends);
      if (!window.isOpen) {
        Object.assign(fence, { by: batch.partition, at: now });
        memory.evidence = [];
      }
      if (proof !== undefined) memory.evidence = [...memory.evidence, proof].slice(-EVIDENCE_KEPT);
    }
    window.push(call, ends);
    const failed = isBad(policy, call);
    fence.run = failed && policy.maxConsecutiveFailures !== undefined ? fence.run + 1 : 0;
    const reason = call === '1' ? undefined : whyBlocked(policy, window, fence.run);
    if (reason !== undefined && trip(bench, reason, window)) {
      verdict = { recorded: window.recorded, succeeded: window.recorded - badIn(policy, window) };
      window.clear();
    }
    if (levels !== undefined && !lane.shadow && lane.state === 'closed') followLevel(bench, window, call !== '1');
  };

  for (const [position, arrived, outcomes] of batch.entries) {
    const arrival = arrived === 0 ? now : Math.min(arrived, now);
    if (arrived > now) result.clipped += outcomes;
    const known = before !== undefined && !isAfter(position, before);
    if (known) result.duplicate += outcomes;
    for (let i = at; i < at + outcomes; i += 1) {
      const code = batch.results[i]!;
      const success = code === '1' || code === '2';
      const proof = success ? undefined : batch.evidence[proofs++];
      if (known) continue;
      const ends = Math.floor(arrival - (batch.times[2 * i] ?? 0));
      if (now - ends > freshForMs) result.stale += 1;
      else if (lane.state === 'open') result.blockedDropped += 1;
      else if (since > 0 && ends - (batch.times[2 * i + 1] ?? 0) <= since) result.late += 1;
      else if (code !== '4' && window.isPast(ends)) result.late += 1;
      else if (
        window.forgetful &&
        success &&
        window.isOpen &&
        fence.by !== '' &&
        fence.by !== batch.partition &&
        (code === '2' || arrival <= fence.at)
      )
        result.late += 1;
      else take(code, ends, proof === undefined ? undefined : (JSON.parse(proof) as Evidence));
    }
    at += outcomes;
    if (last === undefined || isAfter(position, last)) last = position;
  }
  if (result.duplicate === batch.results.length || last === undefined) return;
  // The rules do not ask for them now: if they do so again, what was counted before is no run any more.
  if (policy.maxConsecutiveFailures === undefined) fence.run = 0;
  const atEnd = { recorded: window.recorded, succeeded: window.recorded - badIn(policy, window) };
  Object.assign(result, verdict ?? atEnd, { crowded: crowdedIn(window) - crowdedBefore });
  fence.positions.set(batch.partition, { position: last, written: now });
  fence.expiresAt = now + Math.max(2 * freshForMs, windowTtlMs(policy));
  saveWindow(bench, window, isChanged);
}

/** Half-open: good outcomes close the channel, a bad one blocks it again, longer. */
function tryOne(
  { policy, lanes, memory, now }: Bench,
  partition: string,
  code: string,
  proof: Evidence | undefined,
): void {
  if (isBad(policy, code)) {
    Object.assign(memory.fence, { by: partition, at: now });
    memory.evidence = proof === undefined ? [] : [proof];
    lanes.open(policy, lanes.real, now, 'half-open-failure', { decision: { evidence: memory.evidence } });
  } else if (code !== '4') lanes.gain(policy, now);
}

function followLevel({ policy, lanes, memory, now }: Bench, window: WindowModel, isFailed: boolean): void {
  const level = levelOf(policy, window, lanes.level);
  if (level === lanes.level) return;
  const line = policy.levels?.find(({ name }) => name === level)?.line;
  const decision = { ...countsOf(policy, window), ...(line === undefined ? {} : { threshold: line }) };
  lanes.changeLevel(now, level, { ...decision, ...(isFailed ? { evidence: memory.evidence } : {}) });
}

/** An automatic block, unless too few sources fail. True: it was. */
function trip({ policy, lanes, lane, memory, now }: Bench, reason: string, window: WindowModel): boolean {
  const decision = {
    ...countsOf(policy, window),
    ...(reason === 'success-rate' ? { threshold: policy.successRate } : {}),
    ...(policy.slow === undefined ? {} : { slow: window.slow }),
    evidence: memory.evidence,
  };
  if (policy.minSources !== undefined && sourcesOf(memory.evidence) < policy.minSources) {
    const isTold = now - memory.fence.suspected < windowTtlMs(policy);
    if (lane.shadow || isTold) return false;
    memory.fence.suspected = now;
    lanes.suspect(now, reason, decision);
    return false;
  }
  lanes.open(policy, lane, now, reason, { decision });
  return true;
}

function countsOf(policy: Policy, window: WindowModel): { size: number; recorded: number; succeeded: number } {
  return { size: window.total, recorded: window.recorded, succeeded: window.recorded - badIn(policy, window) };
}

/** An untouched window keeps its time of expiry. */
function saveWindow({ policy, memory, now }: Bench, window: WindowModel, isChanged: boolean): void {
  if (!window.isKept) memory.window = undefined;
  else if (isChanged) memory.window = { window, rule: policy.window, expiresAt: now + windowTtlMs(policy) };
}

function crowdedIn(window: WindowModel): number {
  return window instanceof CallLog ? window.crowded : 0;
}
