import { Counter, Gauge, Registry } from 'prom-client';

type Spec = { readonly help: string; readonly labels?: readonly string[] };

/** Every counter there is, with what it counts: one table, so that a name is never invented where it is used. */
const COUNTERS = {
  circuit_breaker_state_changes_total: {
    help: 'Transitions, counted only by the process whose script call made them',
    labels: ['channel', 'kind'],
  },
  fuseline_outcomes_total: { help: 'Outcomes read from the log, by what became of them', labels: ['disposition'] },
  fuseline_arrivals_clipped_total: {
    help: 'Outcomes whose arrival lay in the future of Redis: exactness under replay ends there',
  },
  fuseline_calls_crowded_total: {
    help: 'Calls that left a full call log before their time: maxEntries is too small for the traffic',
  },
  fuseline_channels_over_limit_total: { help: 'Outcomes of channels beyond maxChannels, not judged' },
  fuseline_recorded_outcomes_total: {
    help: 'Outcomes for the file of recordFile: written, or dropped because the disk did not keep up or refused',
    labels: ['result'],
  },
  fuseline_recording_errors_total: { help: 'Refusals of the disk when outcomes were to be recorded' },
  fuseline_dead_letters_total: { help: 'Outcomes and entries that could not be read', labels: ['kind'] },
  fuseline_record_calls_total: { help: 'Calls of record.lua', labels: ['result'] },
  fuseline_announcements_total: { help: 'Transitions handed on', labels: ['result'] },
  fuseline_sweeps_total: { help: 'Sweeps of the agenda', labels: ['result'] },
  fuseline_swept_channels_total: { help: 'Channels looked at by sweeps' },
  fuseline_housekeeping_removed_total: { help: 'What housekeeping removed', labels: ['what'] },
  fuseline_alerts_total: {
    help: 'Alerts by receiver and by how a delivery attempt ended',
    labels: ['receiver', 'result'],
  },
  fuseline_log_events_total: {
    help: 'Events of the outcome log: entries read, commits, resets, losses to the cap',
    labels: ['event'],
  },
} as const satisfies Record<string, Spec>;

const GAUGES = {
  fuseline_log_lag: { help: 'Entries not yet committed in the shards that this process reads; -1 unknown' },
  fuseline_log_shards_owned: { help: 'Shards that this process reads' },
  fuseline_agenda_size: { help: 'Channels that are not plainly closed, as last seen by a sweep' },
  fuseline_load: {
    help: 'Load that the factors last went by, a share from 0 to 1; -1 unknown, or no policy is dynamic',
  },
  fuseline_window_factor: {
    help: 'By how much windows of dynamic policies are larger than written; 0 in a process that judges nothing',
  },
  fuseline_rate_factor: {
    help: 'By how much dynamic policies tolerate more failures than written; 0 in a process that judges nothing',
  },
  fuseline_groups_at_floor: {
    help: 'Groups that show blocked channels to keep their minVisible, or did within the last minute',
  },
} as const satisfies Record<string, Spec>;

export type CounterName = keyof typeof COUNTERS;
export type GaugeName = keyof typeof GAUGES;

/** How a flow counts: a name of the table, its labels, and how many. */
export type Count = (name: CounterName, labels?: Readonly<Record<string, string>>, by?: number) => void;

export type Metrics = {
  readonly registry: Registry;
  readonly count: Count;
  readonly set: (name: GaugeName, value: number) => void;
};

/** A registry of this process's own, so that two of ours in one process (tests, an embedding service) do not meet. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  const counters = new Map<string, Counter>();
  for (const [name, spec] of Object.entries<Spec>(COUNTERS)) {
    const counter = new Counter({ name, help: spec.help, labelNames: spec.labels ?? [], registers: [registry] });
    counters.set(name, counter);
  }
  const gauges = new Map<string, Gauge>();
  for (const [name, spec] of Object.entries<Spec>(GAUGES))
    gauges.set(name, new Gauge({ name, help: spec.help, registers: [registry] }));
  return {
    registry,
    count(name, labels = {}, by = 1) {
      if (by > 0) counters.get(name)?.inc(labels, by);
    },
    set(name, value) {
      gauges.get(name)?.set(value);
    },
  };
}

/** Counts nothing. */
export const uncounted: Count = () => {};
